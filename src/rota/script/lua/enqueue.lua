#!lua
-- include: attempt bell charge clock home limits lists reconcile record sequence_name state turn
-- args: atomic large distinct jobs bodies
-- resend: receipt
-- checks: itself
-- Stores N jobs and makes them claimable, or keeps them until they are due.
-- jobs: columns {ids, lanes, keys, priorities, delays, instants, costs}; the last five may be false
-- as a whole or per job. bodies: header line and payload of each. delays in ms from now, instants in Unix ms.
-- atomic: when one lane is full, or broken, nothing is stored. large: a payload is over 2 KiB. distinct:
-- no id stands twice.
-- Reply: ok, outcomes · full, lane · broken, lane. outcomes: one letter per job, in order:
--   c created · f lane full · b lane broken (a key of its, or of the job's sequence, is damaged)
--   duplicates (an id is taken while its job exists), by what its job does: w waiting · l delayed ·
--   r running · x dead · d cannot be told
local ids, lanes, keys, priorities, delays, instants, costs = unpack(jobs, 1, 7)

local names = {}
for i = 1, #ids do
  names[i] = k_job(ids[i])
end
local some_exist = redis.call('EXISTS', unpack(names)) > 0

-- Backlog limits count what waits and what is delayed.
local backlog, room = redis.call('EXISTS', k_gmax, k_gtemplate) > 0, {}
local function has_room(lane)
  if not backlog then
    return true
  end
  if not room[lane] then
    local most = backlogs_of({ lane })[1]
    local waiting = tonumber(redis.call('HGET', k_gwaiting, lane) or 0) or 0
    room[lane] = most - waiting - (attempt('ZCARD', k_delayed(lane)) or 0)
  end
  room[lane] = room[lane] - 1
  return room[lane] >= 0
end

local STATE_LETTERS = { waiting = 'w', delayed = 'l', running = 'r', dead = 'x' }

-- The letter of job i, whose id is taken. A call that is made anew finds most of them where it put them.
local function letter_of_holder(i)
  local id, lane = ids[i], lanes[i]
  local key = is_ordered(lane) and '' or keys and keys[i]
  if type(redis.pcall('ZSCORE', waits_in(lane, key), id)) == 'string' then
    return 'w'
  end
  local told, state = pcall(state_of, id)
  return told and STATE_LETTERS[state] or 'd'
end

-- The same where the id is that of job i of this call.
local function letter_of_first(i)
  local is_delayed = delays and (delays[i] or 0) > 0 or instants and (instants[i] or 0) > now
  return is_delayed and 'l' or 'w'
end

-- Says which jobs are to be created, by number; nil where all are.
local outcomes, created
if distinct and not some_exist and not backlog then
  outcomes = string.rep('c', #ids)
else
  local letters, in_batch = {}, {}
  created = {}
  for i, id in ipairs(ids) do
    if in_batch[id] then
      letters[i] = letter_of_first(in_batch[id])
    elseif some_exist and redis.call('EXISTS', names[i]) == 1 then
      letters[i] = letter_of_holder(i)
    elseif not has_room(lanes[i]) then
      if atomic then
        return { 'full', lanes[i] }
      end
      letters[i] = 'f'
    else
      letters[i] = 'c'
      in_batch[id] = i
      created[#created + 1] = i
    end
  end
  outcomes = table.concat(letters)
end
local count = created and #created or #ids
if count == 0 then
  return answered({ 'ok', outcomes })
end

-- Only an atomic call looks at the keys first: what it could not take back is what others wait for.
if atomic then
  local function is_sound(key)
    local kind = redis.call('TYPE', key).ok
    return kind == 'zset' or kind == 'none'
  end
  local lanes_seen, sequences_seen = {}, {}
  for n = 1, count do
    local i = created and created[n] or n
    local lane = lanes[i]
    local key = is_ordered(lane) and '' or keys and keys[i]
    local sequence, sound = key and sequence_of(lane, key), true
    if not lanes_seen[lane] then
      lanes_seen[lane] = true
      sound = is_sound(k_pending(lane)) and is_sound(k_delayed(lane)) and is_sound(k_out(lane))
    end
    if sequence and not sequences_seen[sequence] then
      sequences_seen[sequence] = true
      sound = sound and is_sound(k_sequence(sequence))
    end
    if not sound then
      return { 'broken', lane }
    end
  end
end

-- By lane, in order of first sight, and a lane is its number: its claimable entries as arguments of
-- ZADD, its delayed jobs likewise, how many of its jobs wait.
local numbers, names_of, is_sequence, entries, delayed, waiting = {}, {}, {}, {}, {}, {}
local function number_of(lane)
  local number = #names_of + 1
  numbers[lane], names_of[number] = number, lane
  is_sequence[number], waiting[number] = is_ordered(lane), 0
  return number
end
local function add_entry(lane, place, entry)
  local list = entries[lane]
  if list then
    list[#list + 1] = place -- a number: the server prints it exactly, `..` would not
    list[#list + 1] = entry
  else
    entries[lane] = { place, entry }
  end
end
local sequences, sequence_list = {}, {}
local function sequence_group(lane, key)
  local sequence = sequence_of(names_of[lane], key)
  local group = sequences[sequence]
  if not group then
    group = { sequence = sequence, lane = lane, key = key, jobs = {}, head = math.huge }
    sequences[sequence] = group
    sequence_list[#sequence_list + 1] = group
  end
  return group
end

-- What follows writes: before that, all is asked that is needed of the queue's own keys.
local any_ordered = keys and true or false
for n = 1, count do
  local lane = lanes[created and created[n] or n]
  if not numbers[lane] then
    any_ordered = is_sequence[number_of(lane)] or any_ordered
  end
end
local lane_count = #names_of
local counts = read_counts(redis.call('HMGET', k_gwaiting, unpack(names_of)), lane_count)
local totals = read_counts(redis.call('HMGET', k_stats, 'waiting', 'enqueued'), 2)
local tags = redis.call('ZMSCORE', k_ring, unpack(names_of))
local some_outside = false
for lane = 1, lane_count do
  some_outside = some_outside or not tags[lane]
end
if some_outside then
  -- check: owed gactive paused blocked
  check_limits()
  rotation()
end
if any_ordered then
  -- check: held blocked
end
if delays or instants then
  -- check: scheduled
end
if costs then
  -- check: costs
end

local seq = redis.call('INCRBY', k_seq, count) - count
if seq == 0 then
  redis.call('HSET', k_config, 'needs', 1)
end
if large then
  redis.call('HSET', k_config, 'large', 1)
end
local records, scheduled, soonest = {}, {}, math.huge
local ready_now, ready_later, filled = prefix_end(now), prefix_end(0), 0
for n = 1, count do
  local i = created and created[n] or n
  local id, lane = ids[i], numbers[lanes[i]]
  local due = delays and delays[i] and now + delays[i] or instants and instants[i] or 0
  seq = seq + 1
  records[filled + 1] = names[i]
  filled = filled + 2
  if due > now then
    local place = place_text(seq)
    local member = place .. id
    records[filled] = place .. ready_later .. bodies[i]
    local list = delayed[lane] or {}
    delayed[lane] = list
    list[#list + 1] = due
    list[#list + 1] = member
  else
    local place = priorities and priorities[i] and seq - priorities[i] * PRIORITY_STEP or seq
    records[filled] = place_text(place) .. ready_now .. bodies[i]
    waiting[lane] = waiting[lane] + 1
    local key = is_sequence[lane] and '' or keys and keys[i]
    if key then
      local line = sequence_group(lane, key)
      line.jobs[#line.jobs + 1] = place
      line.jobs[#line.jobs + 1] = id
      line.head = math.min(line.head, place)
    else
      add_entry(lane, place, id)
    end
  end
end
redis.call('MSET', unpack(records))
if costs then
  local charged = {}
  for n = 1, count do
    local i = created and created[n] or n
    if costs[i] then
      charged[#charged + 1] = ids[i]
      charged[#charged + 1] = costs[i]
    end
  end
  if #charged > 0 then
    call_all('HSET', k_costs, charged)
    declare_costs()
  end
end

-- Jobs that a broken key cannot take are not stored: those of a list of arguments of ZADD. lane: of entries,
-- nil of delayed jobs; home: the sequence they may be in already.
local refused, refusals = {}, 0
local function refuse(list, lane, home)
  for i = 2, #list, 2 do
    local entry = list[i]
    if lane and entry:byte(1) == 33 then
      local sequence = sequence_of(names_of[lane], entry:sub(2))
      refuse(sequences[sequence].jobs, lane, k_sequence(sequence))
    else
      local id = lane and entry or entry:sub(PLACE_WIDTH + 1)
      refused[id], refusals = true, refusals + 1
      redis.call('DEL', k_job(id))
      if costs then
        redis.call('HDEL', k_costs, id)
      end
      if home then
        redis.pcall('ZREM', home, id)
      end
      if lane then
        waiting[lane] = waiting[lane] - 1
      end
    end
  end
end

-- A sequence that is neither held nor blocked gets its token, at the lower of its old and its
-- new head; else it waits in `out`.
if #sequence_list > 0 then
  local held_names, block_names = {}, {}
  for i, line in ipairs(sequence_list) do
    line.stored = attempt('ZADD', k_sequence(line.sequence), unpack(line.jobs))
    if not line.stored then
      refuse(line.jobs, line.lane)
    end
    held_names[i] = line.sequence
    block_names[2 * i - 1] = 's:' .. line.sequence
    block_names[2 * i] = 'h:' .. line.sequence
  end
  local held = redis.call('HMGET', k_held, unpack(held_names))
  local blocks = redis.call('ZMSCORE', k_blocked, unpack(block_names))
  for i, line in ipairs(sequence_list) do
    local is_out = held[i] or blocks[2 * i - 1] or blocks[2 * i]
    if line.stored and not is_out then
      add_entry(line.lane, line.head, '!' .. line.key)
    elseif line.stored and not attempt('ZADD', k_out(names_of[line.lane]), 'LT', line.head, line.key) then
      refuse(line.jobs, line.lane, k_sequence(line.sequence))
    end
  end
end

local names_waiting, waiting_now, outside, total, some_inside = {}, {}, {}, 0, false
for lane = 1, #names_of do
  local name, list, later = names_of[lane], entries[lane], delayed[lane]
  if list and attempt('ZADD', k_pending(name), 'LT', unpack(list)) then
    if tags[lane] then
      some_inside = true
    else
      outside[#outside + 1] = name
    end
  elseif list then
    refuse(list, lane)
  end
  if later and attempt('ZADD', k_delayed(name), unpack(later)) then
    for i = 1, #later, 2 do
      scheduled[#scheduled + 1] = later[i]
      scheduled[#scheduled + 1] = later[i + 1]
      soonest = math.min(soonest, later[i])
    end
  elseif later then
    refuse(later)
  end
  local more = waiting[lane]
  if more > 0 then
    names_waiting[#names_waiting + 1] = name
    waiting_now[#names_waiting] = counts[lane] + more
    total = total + more
  end
end
if total > 0 then
  call_pairs('HSET', k_gwaiting, names_waiting, waiting_now)
end
if refusals < count then
  redis.call('HSET', k_stats, 'waiting', totals[1] + total, 'enqueued', totals[2] + count - refusals)
end
if #scheduled > 0 then
  note_due(k_scheduled, soonest)
  redis.call('ZADD', k_scheduled, unpack(scheduled))
end

-- The ring: only lanes that are not in it are looked at.
if some_inside then
  wake()
end
if #outside > 0 then
  local open, join = are_open(outside), {}
  for i, lane in ipairs(outside) do
    if open[i] then
      join[#join + 1] = lane
      wake()
    end
  end
  join_ring(join)
end
ring_bell()

-- Of jobs with the same id, those behind a refused one would be duplicates of nothing.
if refusals > 0 then
  local letters = {}
  for i, id in ipairs(ids) do
    local letter = outcomes:sub(i, i)
    letters[i] = refused[id] and letter ~= 'f' and 'b' or letter
  end
  outcomes = table.concat(letters)
  redis.call('HINCRBY', k_stats, 'broken', take_broken())
end
return answered({ 'ok', outcomes })
