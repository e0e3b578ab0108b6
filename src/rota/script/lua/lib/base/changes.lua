-- include: attempt bell limits lists offer reconcile sequence_name
-- exports: count_permits count_waiting count_total change_of touch write_totals
-- exports: write_lane_changes write_changes
-- state: touched_lanes
-- What a script changes is gathered here and written once, at its end: counts per lane, totals
-- of the queue, and which sequences and lanes must be looked at again.
local permit_change, waiting_change, total_change = {}, {}, {} -- by lane, by lane, by name
local touched_lanes = {} -- lane → true; only read elsewhere
local touched_sequences = {} -- name → { lane, key }

local function count_permits(lane, n)
  permit_change[lane] = (permit_change[lane] or 0) + n
end

local function count_waiting(lane, n)
  waiting_change[lane] = (waiting_change[lane] or 0) + n
end

local function count_total(name, n)
  total_change[name] = (total_change[name] or 0) + n
end

-- What is not written yet of a total.
local function change_of(name)
  return total_change[name] or 0
end

-- The lane is to be looked at again, and its sequence where `key` is given.
local function touch(lane, key)
  touched_lanes[lane] = true
  if key then
    touched_sequences[sequence_of(lane, key)] = { lane, key }
  end
end

-- Adds `changes` to the counts in hash `key`; a count of 0 has no field. Says of which lanes, and what
-- was counted before.
local function write_counts(key, changes)
  local lanes, n = {}, 0
  for lane in pairs(changes) do
    n = n + 1
    lanes[n] = lane
  end
  if n == 0 then
    return lanes, lanes
  end
  local counts = read_counts(fetch_all('HMGET', key, lanes), n)
  local set, values, gone = {}, {}, {}
  for i = 1, n do
    local lane = lanes[i]
    local new = counts[i] + changes[lane]
    if new > 0 then
      set[#set + 1] = lane
      values[#set] = new
    else
      gone[#gone + 1] = lane
    end
  end
  call_pairs('HSET', key, set, values)
  call_all('HDEL', key, gone)
  return lanes, counts
end

local function write_totals()
  count_total('broken', take_broken())
  local names, n = {}, 0
  for name, change in pairs(total_change) do
    if change ~= 0 then
      n = n + 1
      names[n] = name
    end
  end
  if n > 0 then
    local totals = read_counts(redis.call('HMGET', k_stats, unpack(names)), n)
    for i = 1, n do
      totals[i] = totals[i] + total_change[names[i]]
    end
    call_pairs('HSET', k_stats, names, totals)
  end
  total_change = {}
end

-- A queue that stood at its own ceiling has work to hand out again.
local function open_gate_by(freed)
  if queue_ceiling and freed > 0 then
    local before = tonumber(redis.call('HGET', k_stats, 'permits') or 0)
    if before >= queue_ceiling and before - freed < queue_ceiling and redis.call('EXISTS', k_ring) == 1 then
      wake()
    end
  end
end

-- A lane is looked at again when a permit came free while it stood at its ceiling, and so is the
-- queue; every other reason is named by whoever makes the change.
local function write_permits()
  local lanes, before = write_counts(k_gactive, permit_change)
  if #lanes == 0 then
    return
  end
  local ceilings, freed = ceilings_of(lanes), 0
  for i, lane in ipairs(lanes) do
    freed = freed - permit_change[lane]
    if before[i] >= ceilings[i] then
      touch(lane)
    end
  end
  permit_change = {}
  count_total('permits', -freed)
  open_gate_by(freed)
end

-- All but the totals: for a script that goes on to change those.
local function write_lane_changes()
  write_permits()
  write_counts(k_gwaiting, waiting_change)
  waiting_change = {}
  local lanes, keys = {}, {}
  for _, pair in pairs(touched_sequences) do
    lanes[#lanes + 1] = pair[1]
    keys[#lanes] = pair[2]
  end
  touched_sequences = {}
  if #lanes > 0 then
    offer(lanes, keys)
  end
  lanes = {}
  for lane in pairs(touched_lanes) do
    lanes[#lanes + 1] = lane
  end
  touched_lanes = {}
  if #lanes > 0 then
    reconcile(lanes)
  end
end

local function write_changes()
  write_lane_changes()
  write_totals()
end
