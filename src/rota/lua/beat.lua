#!lua flags=allow-oom
-- include: clock bell lists record sequence_name delivery holding limits turn reconcile offer changes give_back bury forget dead_job retention promote next_due reap
-- args: limit watched_ms
-- resend: yes
-- Keeps the queue's time, bounded by `limit` per kind: brings back what has fallen due, takes
-- back the jobs of consumers whose lease ended, prunes kept tags and dead jobs, carries on a paged
-- change. watched_ms: for how long the caller has kept leases in this queue without a break; -1: it
-- keeps none, and leaves the dead consumers, and the silence, to those who do.
-- Reply: more (1: call again), due (ms until the next thing falls due; -1 nothing), reaped
local last = tonumber(redis.call('HGET', k_config, 'beat') or now)
local keeps_leases = watched_ms >= 0
if keeps_leases then
  redis.call('HSET', k_config, 'beat', now)
end
local more = promote(limit)

-- A consumer whose lease ended while nobody beat is spared if the caller was there all the time: then
-- it was the server that was away, and that a worker did not renew says nothing of its jobs. A
-- newcomer is no such witness: all workers may have died of those jobs.
local silence = now - last
local reaped = 0
local gone = keeps_leases and redis.call('ZRANGEBYSCORE', k_consumers, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 20) or {}
for i = 1, #gone, 2 do
  local consumer, deadline = gone[i], gone[i + 1]
  if deadline ~= '-inf' then
    local lease = tonumber(redis.call('HGET', k_consumer(consumer), '!lease') or 0)
    mark_gone(consumer)
    if silence > lease / 2 and watched_ms > silence then
      redis.call('HSET', k_consumer(consumer), '!spared', 1)
    end
  end
  if reaped < limit then
    local spared = redis.call('HEXISTS', k_consumer(consumer), '!spared') == 1
    local back, empty = reap_consumer(consumer, limit - reaped, not spared)
    reaped = reaped + back
    more = more or not empty
  else
    more = true
  end
end
more = more or #gone == 40
if reaped > 0 then
  count_total('reaped', reaped)
end

local behind = redis.call('ZRANGEBYSCORE', k_owed, '-inf', '(' .. number_text(rotation()), 'LIMIT', 0, limit)
call_all('ZREM', k_owed, behind)
more = more or #behind == limit

more = prune_dead(limit) or more

-- A changed default ceiling reaches the lanes that wait, page by page.
local cursor = redis.call('HGET', k_config, 'sweep')
if cursor then
  local page = redis.call('HSCAN', k_gwaiting, cursor, 'COUNT', limit)
  for i = 1, #page[2], 2 do
    touch_lane(page[2][i])
  end
  if page[1] == '0' then
    redis.call('HDEL', k_config, 'sweep')
  else
    redis.call('HSET', k_config, 'sweep', page[1])
    more = true
  end
end
write_changes()
ring_bell()
return { more and 1 or 0, next_due(), reaped }
