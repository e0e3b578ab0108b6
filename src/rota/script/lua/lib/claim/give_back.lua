-- include: asked attempt bell blocked changes clock delivery holding limits lists rate record
-- exports: schedule refund_rate leave_holding end_holdings give_back cancel_held
-- Returns a job to its place, uncounted. `pause` (ms) > 0 keeps an unordered job in `scheduled`
-- and blocks a sequence as a whole: its head keeps its place, nothing overtakes it. A job that a broken
-- sequence cannot take has its record only, as all that was in it.
local function schedule(id, lane, place, due)
  note_due(k_scheduled, due)
  redis.call('ZADD', k_scheduled, due, place .. id)
  attempt('ZADD', k_delayed(lane), due, place .. id)
end

local function return_to_sequence(id, held)
  attempt('ZADD', k_sequence(held.sequence), held.score, id)
  count_waiting(held.lane, 1)
  count_total('waiting', 1)
  count_total('running', -1)
  touch(held.lane, held.key)
end

-- Gives back what was taken and never started; a lane that waits for its next job may go on sooner.
local function refund_rate(lane, jobs)
  local rate = jobs > 0 and rates_of({ lane })[1]
  local tat = rate and redis.call('ZSCORE', k_gtat, lane)
  if tat then
    redis.call('ZADD', k_gtat, number_text(rate_after(rate, tat, -jobs)), lane)
    redis.call('ZREM', k_blocked, 'r:' .. lane)
    touch(lane)
  end
end

-- Takes `id` out of its sequence's hold; with `also_later`, what the same consumer took behind
-- it goes back uncounted: says how many. Of those, one that was asked to be cancelled is gone.
-- The sequence is free when nothing of it is held.
local function leave_holding(consumer, id, held, also_later)
  local holding = read_holding(held.sequence)
  local keep, later, found, back = {}, {}, false, 0
  for _, job in ipairs(holding and holding.jobs or {}) do
    if job == id then
      found = true
    elseif found and also_later then
      later[#later + 1] = job
    else
      keep[#keep + 1] = job
    end
  end
  for _, job in ipairs(later) do
    local text = redis.call('HGET', k_consumer(consumer), job)
    local taken = text and read_delivery(text)
    if taken and is_asked(job) then
      drop(consumer, job)
    elseif taken then
      redis.call('HDEL', k_consumer(consumer), job)
      return_to_sequence(job, taken)
      back = back + 1
    end
  end
  refund_rate(held.lane, #later)
  write_holding(held.sequence, consumer, keep)
  if #keep == 0 and holding then
    count_permits(held.lane, -1)
    touch(held.lane, held.key)
  end
  return back
end

-- Takes jobs that are done out of their sequences' holds. Most are all that is held of theirs, which
-- one question tells.
local function end_holdings(consumer, ids, readings)
  local sequences, free = {}, {}
  for i, held in ipairs(readings) do
    sequences[i] = held.sequence
  end
  local texts = #ids > 0 and fetch_all('HMGET', k_held, sequences)
  for i, held in ipairs(readings) do
    if texts[i] == holding_text(consumer, { ids[i] }) then
      free[#free + 1] = held.sequence
      count_permits(held.lane, -1)
      touch(held.lane, held.key)
    else
      leave_holding(consumer, ids[i], held, false)
    end
  end
  call_all('HDEL', k_held, free)
end

-- Says how many other jobs went back with it.
local function give_back(consumer, id, held, pause)
  redis.call('HDEL', k_consumer(consumer), id)
  if held.sequence then
    return_to_sequence(id, held)
    local block = 'h:' .. held.sequence
    if pause > 0 and redis.call('ZSCORE', k_blocked, block) ~= 'inf' then
      block_until(block, now + pause, id) -- a dead job's hold would not end with this delay
    end
    return leave_holding(consumer, id, held, true)
  end
  count_permits(held.lane, -1)
  count_total('running', -1)
  if pause > 0 or not attempt('ZADD', k_pending(held.lane), held.score, id) then
    schedule(id, held.lane, place_text(held.score), now + (pause > 0 and pause or LATER))
  else
    count_waiting(held.lane, 1)
    count_total('waiting', 1)
    touch(held.lane)
  end
  return 0
end

-- Ends a job in flight as cancelled: gone, its permit free, its sequence going on. `also_later`: the
-- caller believes it back in its place, and so what was taken behind it goes back, as it would have.
-- Says how many other jobs went back.
local function cancel_held(consumer, id, held, also_later)
  drop(consumer, id)
  if held.sequence then
    return leave_holding(consumer, id, held, also_later)
  end
  count_permits(held.lane, -1)
  return 0
end
