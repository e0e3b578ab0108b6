-- Takes entries off the ring's lanes in exact turns: what `want` claims of one would hand out.
-- The first `want` lanes always suffice. Each lane's likely share is popped at once, the turns
-- are then played in memory, and what was popped in excess goes back before anything is written.
local JOBS_MAX = 1000

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
      local entry
      if name:byte(1) ~= 33 then
        entry = { lane = lane, jobs = { name, score } }
      else
        entry = open_token(lane, name, math.min(prefetch, JOBS_MAX - jobs, lane.credit))
      end
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
        charge(lane, entry)
        lane.entries = lane.entries + 1
        lane.jobs = lane.jobs + n
        lane.waiting = lane.waiting - n
        lane.room = lane.room - 1
        if lane.rate then -- turn by turn, as many at once would round
          lane.tat = rate_after(lane.rate, lane.tat, n)
          lane.credit = rate_credit(lane.rate, lane.tat)
        end
        -- Back among the others, unless those that stand before it fill the claim.
        local last = lanes[front + want - count - 1]
        if lane.room > 0 and lane.credit > 0 and not (last and precedes(last, lane)) then
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
