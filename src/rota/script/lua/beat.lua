#!lua flags=allow-oom
-- include: attempt bell changes clock dead_job lists next_due promote reap sweep turn
-- args: limit watched_ms
-- resend: yes
-- sealed: goes on
-- Keeps the queue's time, bounded by `limit` per kind: brings back what has fallen due, takes
-- back the jobs of consumers whose lease ended, prunes kept tags, rates and dead jobs, carries on a
-- paged change. watched_ms: for how long the caller has kept leases in this queue without a break; -1: it
-- keeps none, and leaves the dead consumers, and the silence, to those who do.
-- Reply: more (1: call again), due (ms until the next thing falls due; -1 nothing), reaped, asked (1 or
-- more: there are jobs in flight that someone asked to cancel, or consumers asked to stop)
local last = tonumber(redis.call('HGET', k_config, 'beat') or 0)
local keeps_leases = watched_ms >= 0
if keeps_leases and now < last then
  begin_sweep(false) -- the clock was set back: lanes that wait for their rates are looked at anew
end
local jobs, blocks = find_due(limit)
promote(jobs, blocks)
local more = #jobs == limit or #blocks == limit

-- From when on the caller was there and nobody beat, which it would have done: the server was away. A
-- consumer whose lease had more than half to go then was alive as far as anyone knows, and is spared. Who
-- came later is no witness: all workers may have died of their jobs.
-- Until all are judged no beat is noted, so that the next page of this one finds the same silence.
local silent_from = math.max(last, now - watched_ms)
local over = keeps_leases
    and redis.call('ZRANGEBYSCORE', k_consumers, '(-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  or {}
if #over == 2 * limit then
  more = true
elseif keeps_leases then
  redis.call('HSET', k_config, 'beat', now)
end
for i = 1, #over, 2 do
  local consumer, deadline = over[i], tonumber(over[i + 1])
  local lease = tonumber(attempt('HGET', k_consumer(consumer), '!lease') or 0) or 0
  mark_gone(consumer)
  if deadline - silent_from > lease / 2 then
    attempt('HSET', k_consumer(consumer), '!spared', 1)
  end
end
local reaped = 0
local gone = keeps_leases and redis.call('ZRANGEBYSCORE', k_consumers, '-inf', '-inf', 'LIMIT', 0, 20) or {}
for _, consumer in ipairs(gone) do
  if reaped < limit then
    local spared = attempt('HEXISTS', k_consumer(consumer), '!spared') == 1
    local back, empty = reap_consumer(consumer, limit - reaped, not spared)
    reaped = reaped + back
    more = more or not empty
  else
    more = true
  end
end
more = more or #gone == 20
if reaped > 0 then
  count_total('reaped', reaped)
end

local behind = redis.call('ZRANGEBYSCORE', k_owed, '-inf', '(' .. number_text(rotation()), 'LIMIT', 0, limit)
call_all('ZREM', k_owed, behind)
more = more or #behind == limit

local spent = redis.call('ZRANGEBYSCORE', k_gtat, '-inf', now, 'LIMIT', 0, limit)
call_all('ZREM', k_gtat, spent)
more = more or #spent == limit

more = prune_dead(limit) or more

write_changes() -- the sweep goes by the counts of lanes
more = sweep_page(limit) or more
write_changes()
ring_bell()
return { more and 1 or 0, next_due(), reaped, redis.call('EXISTS', k_cancels, k_orders) }
