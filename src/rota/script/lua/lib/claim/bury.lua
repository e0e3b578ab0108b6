-- include: asked blocked changes clock give_back record
-- exports: bury
-- Moves a job in flight to the dead, its record and error kept. With `hold` its sequence stays
-- out until someone acts on the job; else it goes on behind it. Says how many other jobs went back.
local function bury(consumer, id, held, err, hold)
  redis.call('HDEL', k_consumer(consumer), id)
  if redis.call('EXISTS', k_job(id)) == 0 then
    write_stand_in(id, tonumber(held.score), held.lane, held.key, '')
  end
  redis.call('ZADD', k_dead, now, id)
  redis.call('HSET', k_errors, id, err)
  if is_asked(id) then
    redis.call('HDEL', k_cancels, id)
  end
  count_total('running', -1)
  count_total('buried', 1)
  if held.sequence then
    if hold then
      block_until('h:' .. held.sequence, '+inf', id)
    end
    return leave_holding(consumer, id, held, hold)
  end
  count_permits(held.lane, -1)
  return 0
end
