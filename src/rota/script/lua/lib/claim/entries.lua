-- include: attempt lists ring_lanes sequence_name
-- exports: next_entry put_back_excess open_entry
-- state: ids scores job_count entry_lanes entry_sizes entry_keys entry_full entry_extra
-- writes: dry pending_keys
-- Entries of a claim's lanes: popped by likely share, opened into jobs, put back where they are too
-- many. What was taken stands in columns: jobs in turn order, and entries, each some of them in a row.
-- Only this file changes them, but for entry_extra, which take.lua writes as it charges a turn.
local BYTES_MAX, JOBS_MAX = 2097152, 1000
local byte = string.byte
local ids, scores, job_count = {}, {}, 0
local entry_lanes, entry_sizes = {}, {} -- the lane's number in ring_lanes.lua; how many jobs
local entry_keys, entry_full = {}, {} -- of sequences: the key, whether more may be left of it
local entry_extra = {} -- what was charged beyond 1 for each job, where it was
local ready, at = {}, {} -- of lanes of which several were popped: these, and the next of them
local bytes = 0

-- How many entries a lane will be asked for, by its weight, in a claim that wants `left` more.
local function fair_share(lane, left)
  local share = math.ceil(left * weights[lane] / weight_sum)
  return math.max(1, math.min(share, rooms[lane], credits and credits[lane] or math.huge))
end

-- The first `count` of a lane's entries or of a sequence's jobs, with their scores. What others have
-- lost by then stands nowhere yet: until it is recorded, a damaged key must not end the script. Not by
-- `attempt`: every lane of a claim is asked, and its reply is known to be a table.
local function pop(key, count)
  local popped = redis.pcall('ZPOPMIN', key, count)
  if popped.err then
    note_broken()
    return {}
  end
  return popped
end

-- Pops `count` entries of a lane; one that has fewer, or is broken, leaves the ring.
local function pop_entries(lane, count)
  local key = k_pending(names[lane])
  pending_keys[lane] = key
  local popped = pop(key, count)
  if #popped < 2 * count then
    dry[lane] = true
  end
  return popped
end

-- The lane's next pending entry and its score; nil when it has none left.
local function next_entry(lane, left)
  local list = ready[lane]
  if list and at[lane] <= #list then
    local i = at[lane]
    at[lane] = i + 2
    return list[i], list[i + 1]
  elseif dry[lane] then
    return nil
  end
  local share = left * weights[lane] > weight_sum and fair_share(lane, left) or 1
  list = pop_entries(lane, share)
  if share > 1 then
    ready[lane], at[lane] = list, 3
  end
  return list[1], list[2]
end

local function put_back_excess()
  for lane, list in pairs(ready) do
    local back_scores, back = {}, {}
    for i = at[lane], #list, 2 do
      back[#back + 1] = list[i]
      back_scores[#back] = list[i + 1]
    end
    if #back > 0 then
      call_pairs('ZADD', pending_keys[lane], back_scores, back)
      dry[lane] = false
    end
  end
end

-- Takes up to `most` jobs of a sequence's head, whose token was popped; says how many there were. A
-- sequence that is broken has none, and its token is gone.
local function open_token(lane, token, most, entry)
  local key = token:sub(2)
  local jobs = pop(k_sequence(sequence_of(names[lane], key)), most)
  for i = 1, #jobs, 2 do
    job_count = job_count + 1
    ids[job_count], scores[job_count] = jobs[i], jobs[i + 1]
  end
  entry_keys[entry], entry_full[entry] = key, #jobs == 2 * most
  return #jobs / 2
end

-- Gives back the jobs of the last entry from number `first` on.
local function return_jobs(lane, entry, first)
  local back, back_scores, key = {}, {}, entry_keys[entry]
  for i = job_count, first, -1 do
    back[#back + 1], back_scores[#back + 1] = ids[i], scores[i]
    ids[i], scores[i] = nil, nil
  end
  job_count = first - 1
  if key then
    call_pairs('ZADD', k_sequence(sequence_of(names[lane], key)), back_scores, back)
    entry_full[entry] = true
  else
    call_pairs('ZADD', pending_keys[lane], back_scores, back)
    dry[lane] = false
  end
end

-- Keeps the payload of one call within bounds; only queues with large payloads pay for asking. Says
-- how many of the last entry's `jobs` jobs are kept.
local function trim_to_bytes(lane, entry, jobs)
  local before = job_count - jobs
  for i = 1, jobs do
    local size = attempt('STRLEN', k_job(ids[before + i])) or 0
    if bytes > 0 and bytes + size > BYTES_MAX then
      return_jobs(lane, entry, before + i)
      return i - 1
    end
    bytes = bytes + size
  end
  return jobs
end

-- Opens an entry, popped off its lane, as number `entry` of those taken. Says how many jobs of it were
-- taken, and whether a bound of the call ended it: too many jobs, or too many bytes.
local function open_entry(lane, name, score, entry, prefetch, large)
  local jobs, full = 1, false
  if byte(name) ~= 33 then
    job_count = job_count + 1
    ids[job_count], scores[job_count] = name, score
  else
    local most = math.min(prefetch, JOBS_MAX - job_count, credits and credits[lane] or math.huge)
    jobs = open_token(lane, name, most, entry)
  end
  if large then
    local kept = trim_to_bytes(lane, entry, jobs)
    jobs, full = kept, kept < jobs
  end
  if jobs > 0 then
    entry_lanes[entry], entry_sizes[entry] = lane, jobs
  elseif entry_keys[entry] then
    if full then
      redis.call('ZADD', pending_keys[lane], score, name)
      dry[lane] = false
    end
    entry_keys[entry], entry_full[entry] = nil, nil
  end
  return jobs, full or job_count >= JOBS_MAX
end
