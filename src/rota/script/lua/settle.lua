#!lua flags=allow-oom
-- include: asked bell blocked bury changes clock complete consumer delivery forget give_back
-- include: limits ran turn
-- args: consumer entries
-- resend: receipt
-- checks: itself
-- sealed: goes on
-- Settles jobs in flight, each in its own way; the first ending of a delivery wins.
-- entries: rows {id, delivery, action, delay, error, hold, unstarted, ran}; action: complete · retry (an attempt
-- counts) · release (none does) · bury · block_lane, block_sequence (released, and its lane or
-- sequence stays out for the delay, which only ever extends) · cancel (deleted; what would go back is
-- so too, when it was asked to be cancelled); delay in ms, of a release -1 where its handler named none:
-- from the third in a row it stays away, longer each time; -2 where the consumer cannot run the job:
-- likewise, from the first; error: JSON text kept with the job, or false; hold: a buried job of a
-- sequence stops it; unstarted: a job released without having been run, which its lane's rate gets
-- back; ran: seconds, of jobs charged by time.
-- Reply: one word per row: ok · slowed (ok, and from now on it stays away) · settled (this delivery is not
-- held) · lost (the lease is gone)
local UNFIT = -2
local FREE, PAUSE, PAUSE_MAX = 2, 1000, 60000
local lease = lease_of(consumer)
local answers = {}
-- check: held gactive gwaiting stats ring owed blocked scheduled dead
check_notes()
check_limits()
rotation()
if redis.call('EXISTS', k_why, k_durations, k_paused) > 0 then
  -- check: why durations paused
end

local function extend_block(member, delay, why)
  local old = redis.call('ZSCORE', k_blocked, member)
  block_until(member, math.max(now + delay, tonumber(old or 0)), why)
end

-- Says how long the job itself has to wait: an ordered lane is one sequence, and a job without a
-- sequence waits alone. A block of no length is none.
local function limit(action, held, delay, why)
  if delay == 0 then
    return 0
  elseif action == 'block_lane' or held.key == '' then
    extend_block('l:' .. held.lane, delay, why)
    touch(held.lane)
  elseif held.sequence then
    extend_block('s:' .. held.sequence, delay, why)
  else
    return delay
  end
  return 0
end

-- How long a job stays away that is released without a delay, the first `free` times not at all, and
-- what is answered.
local function pause_of(id, free)
  local many = redis.call('HINCRBY', k_releases, id, 1) - free
  if many <= 0 then
    return 0, 'ok'
  end
  return math.min(PAUSE * 2 ^ (many - 1), PAUSE_MAX), many == 1 and 'slowed' or 'ok'
end

local function settle(row)
  local id, delivery, action, delay, err, hold, unstarted, ran = unpack(row, 1, 8)
  local text = redis.call('HGET', k_consumer(consumer), id)
  local held = text and read_delivery(text)
  if not held or held.delivery ~= delivery then
    return 'settled'
  end
  if action == 'complete' then
    return complete(consumer, { id }, { delivery }, ran and { ran })[1] or 'ok'
  end
  if ran then
    charge_time(held.lane, id, ran)
  end
  if action == 'block_lane' or action == 'block_sequence' then
    delay = limit(action, held, delay, err or '{}')
  end
  refund_rate(held.lane, unstarted and 1 or 0)
  if action == 'cancel' or (action ~= 'bury' and is_asked(id)) then
    count_total('released', cancel_held(consumer, id, held, action ~= 'cancel'))
    return 'ok'
  end
  if action == 'block_lane' or action == 'block_sequence' then
    count_total('released', 1 + give_back(consumer, id, held, delay))
    return 'ok'
  end
  local answer = 'ok'
  if action ~= 'release' then
    redis.call('HINCRBY', k_attempts, id, 1)
    redis.call('HDEL', k_releases, id)
  elseif delay < 0 then
    delay, answer = pause_of(id, delay == UNFIT and 0 or FREE)
  end
  if action == 'bury' then
    count_total('released', bury(consumer, id, held, err or '{}', hold))
    return 'ok'
  end
  if err then
    redis.call('HSET', k_errors, id, err)
  end
  count_total(action == 'retry' and 'retried' or 'released', 1)
  count_total('released', give_back(consumer, id, held, delay))
  return answer
end

local nothing_done = true
for i, row in ipairs(entries) do
  if lease then
    answers[i] = settle(row)
    nothing_done = nothing_done and answers[i] == 'settled'
  else
    answers[i] = 'lost'
  end
end
write_changes()
ring_bell()
return nothing_done and answers or answered(answers)
