-- The ring's first lanes: read once for a claim, and written back once after it.
local SHUT_MAX = 1000

-- The state of these lanes of the ring, and those of them that may not be served: a default
-- ceiling was lowered, and the change has not reached them yet.
local function read_lanes(rows)
  local names = {}
  for i = 1, #rows, 2 do
    names[#names + 1] = rows[i]
  end
  local own = fetch_some(k_glimit, names)
  local active = fetch_all('HMGET', k_gactive, names)
  local weight = fetch_some(k_gweight, names)
  local waiting = fetch_all('HMGET', k_gwaiting, names)
  local lanes, shut = {}, {}
  for i, name in ipairs(names) do
    local permits = tonumber(active[i] or 0)
    local room = ceiling_from(own[i]) - permits
    if room > 0 then
      lanes[#lanes + 1] = {
        name = name,
        tag = tonumber(rows[2 * i]),
        weight = tonumber(weight[i] or 1),
        permits = permits,
        room = room,
        waiting = tonumber(waiting[i] or 0),
        ready = {},
        next = 1,
        entries = 0,
      }
    else
      shut[#shut + 1] = rows[2 * i]
      shut[#shut + 1] = name
    end
  end
  return lanes, shut
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
    local names = {}
    for i = 2, #shut, 2 do
      names[#names + 1] = shut[i]
    end
    call_all('ZREM', k_ring, names)
    call_all('ZADD', k_owed, shut)
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
-- tag in `owed` unless it forgives nothing (one job served, nothing waiting).
local function write_ring(lanes)
  local stay, leave, owe = {}, {}, {}
  local vt = rotation()
  local before = vt
  mark_pending(lanes)
  for _, lane in ipairs(lanes) do
    if lane.served then
      vt = math.max(vt, lane.served)
    end
    if lane.pending and lane.room > 0 then
      if lane.served then
        stay[#stay + 1] = lane.tag
        stay[#stay + 1] = lane.name
      end
    elseif lane.served or not lane.pending then
      leave[#leave + 1] = lane.name
      if lane.waiting > 0 or not lane.served or lane.turn_jobs > 1 then
        owe[#owe + 1] = lane.tag
        owe[#owe + 1] = lane.name
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
  local active, waiting, drained = {}, {}, {}
  for _, lane in ipairs(lanes) do
    if lane.served then
      active[#active + 1] = lane.name
      active[#active + 1] = lane.permits + lane.entries
      if lane.waiting > 0 then
        waiting[#waiting + 1] = lane.name
        waiting[#waiting + 1] = lane.waiting
      else
        drained[#drained + 1] = lane.name
      end
    end
  end
  call_all('HSET', k_gactive, active)
  call_all('HSET', k_gwaiting, waiting)
  call_all('HDEL', k_gwaiting, drained)
  write_ring(lanes)
end
