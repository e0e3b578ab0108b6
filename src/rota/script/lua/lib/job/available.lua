-- include: first_job record
-- exports: available_since
-- Since when (Unix ms) an entry's first job has been available; math.huge: there is none.
local function available_since(entry, lane)
  local id = first_job(lane, entry)
  local prefix = id and read_prefix(id)
  return prefix and prefix.available or math.huge
end
