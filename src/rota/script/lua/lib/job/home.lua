-- include: attempt record sequence_name
-- exports: home_of waits_in first_in first_job available_since
-- Where a job belongs by its record, and what stands there first.

-- Lane, and key of its sequence; nil: it is unordered.
local function home_of(header)
  local lane = header.lane
  return lane, is_ordered(lane) and '' or header.key
end

-- The sorted set in which jobs of a lane, or of its sequence with this key, wait.
local function waits_in(lane, key)
  return key and k_sequence(sequence_of(lane, key)) or k_pending(lane)
end

-- The first member of a sorted set; nil where there is none.
local function first_in(key)
  local found = attempt('ZRANGE', key, 0, 0)
  return found and found[1]
end

-- The first job of a lane's entry; nil where there is none.
local function first_job(lane, entry)
  if entry and entry:byte(1) == 33 then
    return first_in(k_sequence(sequence_of(lane, entry:sub(2))))
  end
  return entry
end

-- Since when (Unix ms) an entry's first job has been available; math.huge: there is none.
local function available_since(entry, lane)
  local id = first_job(lane, entry)
  local prefix = id and read_prefix(id)
  return prefix and prefix.available or math.huge
end
