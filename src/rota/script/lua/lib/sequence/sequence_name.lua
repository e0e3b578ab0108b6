-- exports: lane_home sequence_of is_ordered key_in split_sequence
-- Names of sequences: '<bytes of lane>:<lane>:<key>', so that no two pairs of odd names meet.
-- A lane whose name begins with '!' is one sequence as a whole, with the empty key.
local starts = {} -- by length: making a text of a number costs more than the rest

local function lane_home(lane)
  local start = starts[#lane]
  if not start then
    start = #lane .. ':'
    starts[#lane] = start
  end
  return start .. lane
end

local function sequence_of(lane, key)
  return lane_home(lane) .. ':' .. key
end

local function is_ordered(lane)
  return lane:byte(1) == 33
end

-- A lane's entry is a job's id, or a sequence's token: '!' and its key. That key; nil: it is a job.
local function key_in(entry)
  return entry:byte(1) == 33 and entry:sub(2) or nil
end

-- Lane and key; nil where it is no such name.
local function split_sequence(sequence)
  local colon = sequence:find(':', 1, true)
  local size = colon and tonumber(sequence:sub(1, colon - 1))
  if not size then
    return nil
  end
  local lane_end = colon + size
  return sequence:sub(colon + 1, lane_end), sequence:sub(lane_end + 2)
end
