-- Takes entries off the ring's lanes in exact turns: what `want` claims of one would hand out.
-- The first `want` lanes always suffice. Each lane's likely share is popped at once, the turns
-- are then played in memory, and what was popped in excess goes back before anything is written.
local BYTES_MAX = 2097152
local JOBS_MAX = 1000
local SHUT_MAX = 1000

local function fair_share(lane, left, weights)
  local share = math.ceil(left * lane.weight / weights)
  return math.max(1, math.min(share, lane.room))
end

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

-- The lane's next pending entry and its score; nil when it has none left. A lane whose keys are
-- damaged is left out of the ring and counted, so that it harms no other.
local function next_entry(lane, left, weights)
  if lane.next > #lane.ready then
    if lane.dry then
      return nil
    end
    local ask = fair_share(lane, left, weights)
    local popped = redis.pcall('ZPOPMIN', k_pending(lane.name), ask)
    if popped.err then
      count_total('broken', 1)
      popped = {}
    end
    lane.ready, lane.next = popped, 1
    lane.dry = #popped < 2 * ask
    if #popped == 0 then
      return nil
    end
  end
  local entry, score = lane.ready[lane.next], lane.ready[lane.next + 1]
  lane.next = lane.next + 2
  return entry, score
end

local function put_back_excess(lane)
  if lane.next <= #lane.ready then
    local back = {}
    for i = lane.next, #lane.ready, 2 do
      back[#back + 1] = lane.ready[i + 1]
      back[#back + 1] = lane.ready[i]
    end
    call_all('ZADD', k_pending(lane.name), back)
    lane.dry = false
  end
end

-- Opens one entry: an unordered job, or up to `most` jobs of a sequence's head.
local function open_entry(lane, entry, score, most)
  if entry:byte(1) ~= 33 then
    return { lane = lane, jobs = { entry, score } }
  end
  local key = entry:sub(2)
  local sequence = sequence_of(lane.name, key)
  local jobs = redis.call('ZPOPMIN', k_sequence(sequence), most)
  return { lane = lane, key = key, sequence = sequence, jobs = jobs, full = #jobs == 2 * most }
end

-- Keeps the payload of one call within bounds; only queues with large payloads pay for asking.
local function trim_to_bytes(entry, bytes)
  for i = 1, #entry.jobs, 2 do
    local size = redis.call('STRLEN', k_job(entry.jobs[i]))
    if bytes > 0 and bytes + size > BYTES_MAX then
      local back, keep = {}, {}
      for j = 1, #entry.jobs, 2 do
        local list = j < i and keep or back
        list[#list + 1] = entry.jobs[j]
        list[#list + 1] = entry.jobs[j + 1]
      end
      return bytes, keep, back
    end
    bytes = bytes + size
  end
  return bytes, entry.jobs, {}
end

local function return_jobs(entry, jobs)
  local pairs_back = {}
  for i = 1, #jobs, 2 do
    pairs_back[#pairs_back + 1] = jobs[i + 1]
    pairs_back[#pairs_back + 1] = jobs[i]
  end
  if entry.sequence then
    call_all('ZADD', k_sequence(entry.sequence), pairs_back)
    entry.full = true
  else
    call_all('ZADD', k_pending(entry.lane.name), pairs_back)
    entry.lane.dry = false
  end
end

-- Plays the turns. Appends to `taken`; says whether a bound of the call ended them: too many
-- jobs, or too many bytes.
local function play_turns(lanes, want, prefetch, large, taken)
  -- `lanes` stand in the ring's order; the heap holds only those that were served and stay.
  local heap, front, weights, count = {}, 1, 0, 0
  for _, lane in ipairs(lanes) do
    weights = weights + lane.weight
  end
  local bytes, jobs, full = 0, 0, false
  while count < want and not full do
    local lane, again = lanes[front], heap[1]
    if lane and not (again and precedes(again, lane)) then
      front = front + 1
    elseif again then
      lane = heap_pop(heap)
    else
      break
    end
    local name, score = next_entry(lane, want - count, weights)
    if name then
      local entry = open_entry(lane, name, score, math.min(prefetch, JOBS_MAX - jobs))
      if large then
        local back
        bytes, entry.jobs, back = trim_to_bytes(entry, bytes)
        if #back > 0 then
          return_jobs(entry, back)
          full = true
        end
      end
      local n = #entry.jobs / 2
      jobs = jobs + n
      full = full or jobs >= JOBS_MAX
      if n > 0 then
        count = count + 1
        taken[count] = entry
        lane.served = lane.tag
        for _ = 1, n do -- one addition per job: n at once would round otherwise
          lane.tag = lane.tag + 1 / lane.weight
        end
        lane.turn_jobs = n
        lane.entries = lane.entries + 1
        lane.waiting = lane.waiting - n
        lane.room = lane.room - 1
        if lane.room > 0 then
          heap_push(heap, lane)
        end
      elseif entry.sequence and full then
        redis.call('ZADD', k_pending(lane.name), score, name)
        lane.dry = false
      else
        heap_push(heap, lane)
      end
    end
  end
  for _, lane in ipairs(lanes) do
    put_back_excess(lane)
  end
  return full
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

local function lane_home(lane)
  lane.home = lane.home or #lane.name .. ':' .. lane.name
  return lane.home
end

-- What the consumer holds now: into its hash before anything that could fail.
local function record_taken(consumer, number, taken)
  local some_died = redis.call('EXISTS', k_deaths) == 1
  local holds, holdings, n = {}, {}, 0
  for _, entry in ipairs(taken) do
    local jobs, home = entry.jobs, entry.sequence or lane_home(entry.lane)
    for i = 1, #jobs, 2 do
      local id = jobs[i]
      local mark = some_died and redis.call('HEXISTS', k_deaths, id) == 1 and 'u' or '-'
      holds[n + 1] = id
      holds[n + 2] = delivery_text(number, jobs[i + 1], mark, home)
      n = n + 2
    end
    if entry.sequence then
      local ids = {}
      for i = 1, #jobs, 2 do
        ids[#ids + 1] = jobs[i]
      end
      holdings[#holdings + 1] = entry.sequence
      holdings[#holdings + 1] = holding_text(consumer, ids)
    end
  end
  call_all('HSET', k_consumer(consumer), holds)
  call_all('HSET', k_held, holdings)
  count_total('waiting', -#holds / 2)
  count_total('running', #holds / 2)
end

-- What is left of the sequences waits outside until they are free again.
local function put_out(taken)
  for _, entry in ipairs(taken) do
    if entry.full then
      local head = redis.call('ZRANGE', k_sequence(entry.sequence), 0, 0, 'WITHSCORES')
      if #head > 0 then
        redis.call('ZADD', k_out(entry.lane.name), head[2], entry.key)
      end
    end
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

-- Takes up to `want` entries for the consumer; says what, and whether a bound ended it.
local function take(consumer, number, want, prefetch, large)
  local taken, lanes = {}, open_ring(want)
  local full = play_turns(lanes, want, prefetch, large, taken)
  if #taken > 0 then
    record_taken(consumer, number, taken)
    put_out(taken)
  end
  write_lanes(lanes)
  write_totals()
  return taken, full
end
