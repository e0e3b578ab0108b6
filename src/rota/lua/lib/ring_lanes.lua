-- The ring's first lanes: read once for a claim, and written back once after it.
local SHUT_MAX = 1000

-- A lane that has just been seen with neither a free permit nor, where it has a rate, a job to its
-- credit may not be served: limits of many lanes were lowered, and the change has not reached it yet.
local function read_lanes(rows)
  local names = {}
  for i = 1, #rows, 2 do
    names[#names + 1] = rows[i]
  end
  local ceilings, weights, rates = ceilings_of(names), weights_of(names), rates_of(names)
  local active = fetch_all('HMGET', k_gactive, names)
  local waiting = fetch_all('HMGET', k_gwaiting, names)
  local tats
  local lanes, shut, none = {}, {}, {}
  for i, name in ipairs(names) do
    local permits = tonumber(active[i] or 0)
    local lane = {
      name = name,
      tag = tonumber(rows[2 * i]),
      weight = weights[i],
      permits = permits,
      room = ceilings[i] - permits,
      credit = math.huge,
      waiting = tonumber(waiting[i] or 0),
      ready = none,
      next = 1,
      entries = 0,
      jobs = 0,
    }
    if rates[i] then
      tats = tats or fetch_all('ZMSCORE', k_gtat, names)
      lane.rate, lane.tat = rates[i], tats[i]
      lane.credit = rate_credit(lane.rate, lane.tat)
    end
    local list = lane.room > 0 and lane.credit > 0 and lanes or shut
    list[#list + 1] = lane
  end
  return lanes, shut
end

-- Out of the ring, its tag kept; without credit it comes back in time, without a permit when one
-- is freed.
local function shut_out(shut)
  local leave, owe = {}, {}
  for i, lane in ipairs(shut) do
    leave[i] = lane.name
    owe[2 * i - 1] = number_text(lane.tag)
    owe[2 * i] = lane.name
    if lane.room > 0 then
      keep_out(lane.name, lane.rate, lane.tat)
    end
  end
  call_all('ZREM', k_ring, leave)
  call_all('ZADD', k_owed, owe)
end

-- The ring's first lanes, at least `want` of them if there are so many. Turns are exact only over
-- lanes that may all be served, so those that may not leave the ring first, a bounded number.
local function open_ring(want)
  local seen = 0
  while seen < SHUT_MAX do
    local rows = redis.call('ZRANGE', k_ring, 0, math.max(want, seen) - 1, 'WITHSCORES')
    if #rows == 0 then
      return {}
    end
    local lanes, shut = read_lanes(rows)
    if #shut == 0 then
      return lanes
    end
    shut_out(shut)
    seen = seen + #rows / 2
  end
  return {}
end

-- Which of the lanes have entries pending still. The counts say so; one question for those with
-- work and one for those without check it, and only a surprise is asked one by one.
local function mark_as(lanes, pending)
  local keys = {}
  for i, lane in ipairs(lanes) do
    lane.pending = pending
    keys[i] = k_pending(lane.name)
  end
  if #keys > 0 and redis.call('EXISTS', unpack(keys)) ~= (pending and #keys or 0) then
    for i, lane in ipairs(lanes) do
      lane.pending = redis.call('EXISTS', keys[i]) == 1
    end
  end
end

local function mark_pending(lanes)
  local full, empty = {}, {}
  for _, lane in ipairs(lanes) do
    if lane.waiting > 0 and not lane.dry then
      full[#full + 1] = lane
    elseif lane.dry then
      lane.pending = false
    else
      empty[#empty + 1] = lane
    end
  end
  mark_as(full, true)
  mark_as(empty, false)
end

-- Writes the ring after a round: new tags for lanes that stay; a lane that leaves keeps its
-- tag in `owed` unless it would come back with that tag (nothing waiting, charged one usual job).
local function write_ring(lanes)
  local stay, leave, owe = {}, {}, {}
  local vt = rotation()
  local before = vt
  mark_pending(lanes)
  for _, lane in ipairs(lanes) do
    if lane.served then
      vt = math.max(vt, lane.served)
    end
    if lane.pending and lane.room > 0 and lane.credit > 0 then
      if lane.served then
        stay[#stay + 1] = lane.tag
        stay[#stay + 1] = lane.name
      end
    elseif lane.served or not lane.pending then
      leave[#leave + 1] = lane.name
      if lane.waiting > 0 or not lane.served or lane.turn_charge ~= 1 or costs_are_declared() then
        owe[#owe + 1] = lane.tag
        owe[#owe + 1] = lane.name
      end
      if lane.pending and lane.room > 0 then
        keep_out(lane.name, lane.rate, lane.tat)
      end
    end
  end
  call_all('ZADD', k_ring, stay)
  call_all('ZREM', k_ring, leave)
  call_all('ZADD', k_owed, owe)
  if vt > before then
    redis.call('SET', k_vt, number_text(vt))
  end
end

local function write_lanes(lanes)
  local active, waiting, drained, tats, entries = {}, {}, {}, {}, 0
  for _, lane in ipairs(lanes) do
    if lane.served then
      entries = entries + lane.entries
      active[#active + 1] = lane.name
      active[#active + 1] = lane.permits + lane.entries
      if lane.waiting > 0 then
        waiting[#waiting + 1] = lane.name
        waiting[#waiting + 1] = lane.waiting
      else
        drained[#drained + 1] = lane.name
      end
      if lane.rate then
        tats[#tats + 1] = number_text(lane.tat)
        tats[#tats + 1] = lane.name
      end
    end
  end
  call_all('HSET', k_gactive, active)
  call_all('HSET', k_gwaiting, waiting)
  call_all('HDEL', k_gwaiting, drained)
  call_all('ZADD', k_gtat, tats)
  count_total('permits', entries)
  write_ring(lanes)
end
