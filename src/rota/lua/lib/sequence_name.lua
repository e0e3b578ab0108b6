-- Names of sequences: '<bytes of lane>:<lane>:<key>', so that no two pairs of odd names meet.
-- A lane whose name begins with '!' is one sequence as a whole, with the empty key.
local function sequence_of(lane, key)
  return #lane .. ':' .. lane .. ':' .. key
end

local function is_ordered(lane)
  return lane:byte(1) == 33
end

local function split_sequence(sequence)
  local colon = sequence:find(':', 1, true)
  local lane_end = colon + tonumber(sequence:sub(1, colon - 1))
  return sequence:sub(colon + 1, lane_end), sequence:sub(lane_end + 2)
end
