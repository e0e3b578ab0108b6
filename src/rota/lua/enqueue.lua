#!lua
-- include: clock bell lists record sequence_name limits backlog out_until rate charge turn reconcile
-- args: nonce atomic large distinct jobs bodies
-- resend: yes
-- Stores N jobs and makes them claimable, or keeps them until they are due.
-- jobs: columns {ids, lanes, keys, priorities, delays, instants, costs}; the last five may be false
-- as a whole or per job. bodies: header line and payload of each. delays in ms from now, instants in Unix ms.
-- atomic: when one lane is full, nothing is stored. large: a payload is over 2 KiB. distinct: no id
-- stands twice.
-- Reply: ok, outcomes · full, lane. outcomes: one letter per job, in order:
--   c created · d duplicate (the id is taken while its job exists) · f lane full
-- The nonce keeps the outcomes for 60 s: a resend is answered from them and stores nothing.
local receipt = redis.call('GET', k_sent(nonce))
if receipt then
  -- A write, so that this connection too can ask whether all before it is durable.
  redis.call('PEXPIRE', k_sent(nonce), 60000)
  return { 'ok', receipt }
end
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
    local waiting = tonumber(redis.call('HGET', k_gwaiting, lane) or 0)
    room[lane] = most - waiting - redis.call('ZCARD', k_delayed(lane))
  end
  room[lane] = room[lane] - 1
  return room[lane] >= 0
end

-- Says which jobs are to be created, by number; nil where all are.
local outcomes, created
if distinct and not some_exist and not backlog then
  outcomes = string.rep('c', #ids)
else
  local letters, in_batch = {}, {}
  created = {}
  for i, id in ipairs(ids) do
    if in_batch[id] or (some_exist and redis.call('EXISTS', names[i]) == 1) then
      letters[i] = 'd'
    elseif not has_room(lanes[i]) then
      if atomic then
        return { 'full', lanes[i] }
      end
      letters[i] = 'f'
    else
      letters[i] = 'c'
      in_batch[id] = true
      created[#created + 1] = i
    end
  end
  outcomes = table.concat(letters)
end
local count = created and #created or #ids
redis.call('SET', k_sent(nonce), outcomes, 'PX', 60000)
if count == 0 then
  return { 'ok', outcomes }
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

local seq = redis.call('INCRBY', k_seq, count) - count
if seq == 0 then
  redis.call('HSET', k_config, 'schema', 1)
end
if large then
  redis.call('HSET', k_config, 'large', 1)
end
local records, scheduled, soonest = {}, {}, math.huge
local ready_now, ready_later, filled = prefix_end(now), prefix_end(0), 0
for n = 1, count do
  local i = created and created[n] or n
  local id, lane = ids[i], numbers[lanes[i]] or number_of(lanes[i])
  local due = delays and delays[i] and now + delays[i] or instants and instants[i] or 0
  seq = seq + 1
  records[filled + 1] = names[i]
  filled = filled + 2
  if due > now then
    local place = place_text(seq)
    local member = place .. id
    records[filled] = place .. ready_later .. bodies[i]
    scheduled[#scheduled + 1] = due
    scheduled[#scheduled + 1] = member
    local list = delayed[lane] or {}
    delayed[lane] = list
    list[#list + 1] = due
    list[#list + 1] = member
    soonest = math.min(soonest, due)
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

-- A sequence that is neither held nor blocked gets its token, at the lower of its old and its
-- new head; else it waits in `out`.
if #sequence_list > 0 then
  local held_names, block_names = {}, {}
  for i, line in ipairs(sequence_list) do
    redis.call('ZADD', k_sequence(line.sequence), unpack(line.jobs))
    held_names[i] = line.sequence
    block_names[2 * i - 1] = 's:' .. line.sequence
    block_names[2 * i] = 'h:' .. line.sequence
  end
  local held = redis.call('HMGET', k_held, unpack(held_names))
  local blocks = redis.call('ZMSCORE', k_blocked, unpack(block_names))
  for i, line in ipairs(sequence_list) do
    local head = line.head
    if held[i] or blocks[2 * i - 1] or blocks[2 * i] then
      redis.call('ZADD', k_out(names_of[line.lane]), 'LT', head, line.key)
    else
      add_entry(line.lane, head, '!' .. line.key)
    end
  end
end

local names_waiting, added, names_ready, total = {}, {}, {}, 0
for lane = 1, #names_of do
  local name, list, more = names_of[lane], entries[lane], waiting[lane]
  if list then
    redis.call('ZADD', k_pending(name), 'LT', unpack(list))
    names_ready[#names_ready + 1] = name
  end
  if delayed[lane] then
    redis.call('ZADD', k_delayed(name), unpack(delayed[lane]))
  end
  if more > 0 then
    names_waiting[#names_waiting + 1] = name
    added[#names_waiting] = more
    total = total + more
  end
end
if total > 0 then
  local counts = redis.call('HMGET', k_gwaiting, unpack(names_waiting))
  for i = 1, #names_waiting do
    counts[i] = (counts[i] or 0) + added[i]
  end
  call_pairs('HSET', k_gwaiting, names_waiting, counts)
  redis.call('HINCRBY', k_stats, 'waiting', total)
end
redis.call('HINCRBY', k_stats, 'enqueued', count)
if #scheduled > 0 then
  local first = redis.call('ZRANGE', k_scheduled, 0, 0, 'WITHSCORES')[2]
  if not first or soonest < tonumber(first) then
    wake_timers()
  end
  redis.call('ZADD', k_scheduled, unpack(scheduled))
end

-- The ring: asked once which lanes are in already; only the others are looked at.
if #names_ready > 0 then
  local tags, outside = redis.call('ZMSCORE', k_ring, unpack(names_ready)), {}
  for i = 1, #names_ready do
    if not tags[i] then
      outside[#outside + 1] = names_ready[i]
    end
  end
  if #outside < #names_ready then
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
end
ring_bell()
return { 'ok', outcomes }
