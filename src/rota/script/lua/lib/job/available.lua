-- include: attempt record sequence_name
-- exports: available_since
-- Since when (Unix ms) an entry's first job has been available; math.huge: there is none.
local function available_since(entry, lane)
  if entry and entry:byte(1) == 33 then
    entry = first_in(k_sequence(sequence_of(lane, entry:sub(2))))
  end
  local prefix = entry and read_prefix(entry)
  return prefix and prefix.available or math.huge
end
