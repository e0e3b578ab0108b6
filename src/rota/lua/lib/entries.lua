-- Entries of a lane: popped by likely share, opened into jobs, put back where they are too many.
local BYTES_MAX = 2097152

local function fair_share(lane, left, weights)
  local share = left * lane.weight / weights
  return share <= 1 and 1 or math.max(1, math.min(math.ceil(share), lane.room, lane.credit))
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

-- Opens a token: up to `most` jobs of its sequence's head.
local function open_token(lane, token, most)
  local key = token:sub(2)
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
