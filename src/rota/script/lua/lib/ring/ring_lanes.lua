-- include: bytes changes charge limits lists rate turn
-- exports: may_be_served open_ring precedes note_turn write_lanes
-- state: names weights rooms credits weight_sum dry pending_keys
-- The ring's first lanes: read once for a claim, and written back once after it. They stand in
-- columns, one list for each thing known of a lane, and a lane is its number in them: a table for each
-- lane would cost more than all that is done with it. Only this file changes them, but for the last two,
-- which entries.lua notes as it asks lanes for what they have.
local SHUT_MAX = 1000
local names, weights = {}, {}
local rooms = {} -- permits that are free still
local credits = nil -- jobs that the rate lets start still; nil where no lane has a rate
local weight_sum = 0
local tags, permits, waiting = {}, {}, {} -- tags and waiting as turns change them, permits as they were read
local rates, tats = {}, {} -- of lanes with a rate
local served, turn_charges = {}, {} -- entries a lane was served; its last turn's charge, where one was not 1
local last_served = 0 -- the highest tag that was served
local dry = {} -- true: has nothing pending; false: something was put back
local pending_keys = {} -- of lanes that were asked

local function may_be_served(lane)
  return rooms[lane] > 0 and (not credits or credits[lane] > 0)
end

local function read_rates()
  credits = nil
  if not some_limits then
    return
  end
  rates = rates_of(names)
  for lane = 1, #names do
    if rates[lane] then
      if not credits then
        tats, credits = fetch_all('ZMSCORE', k_gtat, names), {}
        for other = 1, #names do
          credits[other] = math.huge
        end
      end
      credits[lane] = rate_credit(rates[lane], tats[lane])
    end
  end
end

-- Says which of the lanes may not be served.
local function read_lanes(rows)
  local n, shut = #rows / 2, {}
  names, tags, pending_keys = {}, {}, {}
  for lane = 1, n do
    names[lane], tags[lane] = rows[2 * lane - 1], rows[2 * lane] + 0
  end
  if n == 0 then
    return shut
  end
  rooms, weights = ceilings_of(names), weights_of(names)
  permits = read_counts(fetch_all('HMGET', k_gactive, names), n)
  waiting = read_counts(fetch_all('HMGET', k_gwaiting, names), n)
  read_rates()
  weight_sum = 0
  for lane = 1, n do
    rooms[lane] = rooms[lane] - permits[lane]
    weight_sum = weight_sum + weights[lane]
    if not may_be_served(lane) then
      shut[#shut + 1] = lane
    end
  end
  return shut
end

-- A lane that has just been seen with neither a free permit nor, where it has a rate, a job to its
-- credit may not be served: limits of many lanes were lowered, and the change has not reached it yet.
-- Out of the ring, its tag kept; without credit it comes back in time, without a permit when one
-- is freed.
local function shut_out(shut)
  local leave, owed = {}, {}
  for i, lane in ipairs(shut) do
    leave[i], owed[i] = names[lane], number_text(tags[lane])
    if rooms[lane] > 0 then
      keep_out(names[lane], rates[lane], tats[lane])
    end
  end
  call_all('ZREM', k_ring, leave)
  call_pairs('ZADD', k_owed, owed, leave)
end

-- Reads the ring's first lanes, at least `want` of them if there are so many. Turns are exact only
-- over lanes that may all be served, so those that may not leave the ring first, a bounded number.
local function open_ring(want)
  local seen = 0
  while seen < SHUT_MAX do
    local rows = redis.call('ZRANGE', k_ring, 0, math.max(want, seen) - 1, 'WITHSCORES')
    local shut = read_lanes(rows)
    if #shut == 0 then
      return
    end
    shut_out(shut)
    seen = seen + #rows / 2
  end
  read_lanes({})
end

-- Before another in the ring: by tag, then name.
local function precedes(lane, other)
  local tag, other_tag = tags[lane], tags[other]
  return tag < other_tag or (tag == other_tag and precedes_by_bytes(names[lane], names[other]))
end

-- Notes a turn of a lane: `jobs` jobs of one entry, which cost what `costs` says, or 1 each. One addition
-- for each, as many at once would round. Says what the turn was charged.
local function note_turn(lane, jobs, costs)
  local weight, tag, charged = weights[lane], tags[lane], 0
  if tag > last_served then
    last_served = tag
  end
  for i = 1, jobs do
    local cost = costs and costs[i] or 1
    tag, charged = tag + cost / weight, charged + cost
  end
  tags[lane] = tag
  served[lane] = (served[lane] or 0) + 1
  waiting[lane] = waiting[lane] - jobs
  rooms[lane] = rooms[lane] - 1
  if charged ~= 1 or turn_charges[lane] then
    turn_charges[lane] = charged
  end
  if rates[lane] then -- turn by turn, as many at once would round
    tats[lane] = rate_after(rates[lane], tats[lane], jobs)
    credits[lane] = rate_credit(rates[lane], tats[lane])
  end
  return charged
end

-- Whether these lanes have entries pending still is what `found` says of those where the counts
-- tell otherwise. One question checks it for all, and only a surprise is asked one by one.
local function check_pending(lanes, expected, found)
  local keys = {}
  for i = 1, #lanes do
    keys[i] = pending_keys[lanes[i]]
  end
  if #keys > 0 and redis.call('EXISTS', unpack(keys)) ~= (expected and #keys or 0) then
    for i, lane in ipairs(lanes) do
      found[lane] = redis.call('EXISTS', keys[i]) == 1
    end
  end
end

local function find_surprises(asked)
  local full, empty, found = {}, {}, {}
  for lane = 1, asked do
    if not dry[lane] then
      local list = waiting[lane] > 0 and full or empty
      list[#list + 1] = lane
    end
  end
  check_pending(full, true, found)
  check_pending(empty, false, found)
  return found
end

-- Writes the ring after a round: new tags for lanes that stay; a lane that leaves keeps its
-- tag in `owed` unless it would come back with that tag (nothing waiting, charged one usual job).
local function write_ring(asked)
  local stay, leave, owe, n = {}, {}, {}, 0
  local surprises = find_surprises(asked)
  for lane = 1, asked do
    local pending = surprises[lane]
    if pending == nil then
      pending = waiting[lane] > 0 and not dry[lane]
    end
    if pending and may_be_served(lane) then
      if served[lane] then
        stay[n + 1], stay[n + 2] = tags[lane], names[lane]
        n = n + 2
      end
    elseif served[lane] or not pending then
      leave[#leave + 1] = names[lane]
      if waiting[lane] > 0 or not served[lane] or (turn_charges[lane] or 1) ~= 1 or some_costs then
        owe[#owe + 1] = tags[lane]
        owe[#owe + 1] = names[lane]
      end
      if pending and rooms[lane] > 0 then
        keep_out(names[lane], rates[lane], tats[lane])
      end
    end
  end
  call_all('ZADD', k_ring, stay)
  call_all('ZREM', k_ring, leave)
  call_all('ZADD', k_owed, owe)
  if last_served > rotation() then
    turn_to(last_served)
  end
end

-- Writes what turns of the first `asked` lanes have changed.
local function write_lanes(asked)
  local active, wait, drained, used_up = {}, {}, {}, {}
  local n, m, total = 0, 0, 0
  for lane = 1, asked do
    local taken = served[lane]
    if taken then
      local name, left = names[lane], waiting[lane]
      active[n + 1], active[n + 2] = name, permits[lane] + taken
      n, total = n + 2, total + taken
      if left > 0 then
        wait[m + 1], wait[m + 2] = name, left
        m = m + 2
      else
        drained[#drained + 1] = name
      end
      if rates[lane] then
        used_up[#used_up + 1] = number_text(tats[lane])
        used_up[#used_up + 1] = name
      end
    end
  end
  call_all('HSET', k_gactive, active)
  call_all('HSET', k_gwaiting, wait)
  call_all('HDEL', k_gwaiting, drained)
  call_all('ZADD', k_gtat, used_up)
  count_total('permits', total)
  write_ring(asked)
end
