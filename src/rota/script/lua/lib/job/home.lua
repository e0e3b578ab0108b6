-- include: sequence_name
-- exports: home_of waits_in
-- Where a job belongs, by its record's header.

-- Lane, and key of its sequence; nil: it is unordered.
local function home_of(header)
  local lane = header.lane
  return lane, is_ordered(lane) and '' or header.key
end

-- The sorted set in which jobs of a lane, or of its sequence with this key, wait.
local function waits_in(lane, key)
  return key and k_sequence(sequence_of(lane, key)) or k_pending(lane)
end
