#!lua flags=allow-oom
-- include: bell changes clock complete consumer entries forget gate limits lists next_due promote
-- include: served take turn
-- args: consumer number want prefetch park done
-- resend: no
-- checks: itself
-- sealed: goes on
-- Settles completed jobs and claims up to `want` entries, in one round trip.
-- done: {ids, deliveries, ran}. number: the claim's own, the next after the last of this consumer, any for its
-- first; it is the delivery number of what is claimed. Another tells that a claim was left unanswered,
-- or that the server has lost one, and so who holds what has to be compared first. park: the caller
-- will wait and keep the time.
-- fields: status now due left answers ids records sizes attempts suspects
--   status   ok · lost (the lease is gone) · stale (the number is not the next)
--   due      ms until the next thing falls due, told when slots stay free; -1 nothing
--   left     1 when work stands in the ring after the call
--   answers  one word per job in done: ok, settled, lost; none at all when all are ok
--   sizes    jobs per entry, in turn order; empty when each entry is one job
--   attempts, suspects   per job: attempts and deaths so far; empty when no job has any
local ids_done, deliveries_done, ran = unpack(done, 1, 3)
local lease = lease_of(consumer)
local answers = {}
-- check: held gactive gwaiting stats ring owed paused
local due_jobs, due_blocks = find_due(100)
check_notes()
check_limits()
rotation()
if ran then
  -- check: durations
end
if #ids_done > 0 then
  if lease then
    answers = complete(consumer, ids_done, deliveries_done, ran)
  else
    for i = 1, #ids_done do
      answers[i] = 'lost'
    end
  end
end

local function refuse(status)
  write_changes()
  ring_bell()
  return { status, now, -1, 0, answers, {}, {}, {}, {}, {} }
end

if not lease or lease <= now then
  return refuse('lost')
end
local hash = k_consumer(consumer)
if want > 0 then
  local last = tonumber(redis.call('HGET', hash, '!claim') or 0)
  if number ~= last + 1 and (last > 0 or number < 1) then
    return refuse('stale')
  end
  redis.call('HSET', hash, '!claim', number)
  promote(due_jobs, due_blocks)
end
write_lane_changes()

local room, large = read_gate(change_of('permits'))
local count, full = 0, false
if want > 0 and room > 0 then
  count, full = take(consumer, number, math.min(want, room), prefetch, large)
end
write_totals()

local left = count < room and redis.call('EXISTS', k_ring) == 1
local due = -1
local short = count < want and not full -- a claim that a bound ended says nothing of free slots
if short then
  due = next_due()
  if not left then
    if count == 0 and redis.call('EXISTS', k_ring, k_gwaiting) == 0 then
      redis.call('DEL', k_owed, k_vt) -- a new busy period begins
    end
    if park then
      redis.call('DEL', k_wake)
    end
  end
end
-- Work is left, or the time has come nearer and this caller will not keep it.
local ring_on = left and (bell_wanted or short or count > 0)
local tell_time = timers_late and not (short and park)
if (ring_on or tell_time) and redis.pcall('LLEN', k_wake) == 0 then
  wake()
  ring_bell()
end

local records, sizes, attempts, suspects = {}, {}, {}, {}
if count > 0 then
  local keys = {}
  for i = 1, #ids do
    keys[i] = k_job(ids[i])
  end
  records = redis.call('MGET', unpack(keys)) -- at most 1,000: the bound of a claim
  count_served(count, records)
  if #ids > count then
    sizes = entry_sizes
  end
  if some_failed then
    attempts = fetch_all('HMGET', k_attempts, ids)
    suspects = fetch_all('HMGET', k_deaths, ids)
  end
end
return { 'ok', now, due, left and 1 or 0, answers, ids, records, sizes, attempts, suspects }
