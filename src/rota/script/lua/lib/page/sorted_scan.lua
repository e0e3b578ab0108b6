-- include: bytes
-- exports: scan_sorted
-- A page of a scan in the order of names, so that its reader may stop within it and go on behind a name.
-- step: 2 where names come with values. Gives names behind `after` (false: all), their values by name,
-- and the cursor of the page behind this one.
local function scan_sorted(command, key, cursor, after, step)
  local page, names, values = redis.call(command, key, cursor, 'COUNT', 100), {}, {}
  for i = 1, #page[2], step do
    local name = page[2][i]
    if not after or precedes_by_bytes(after, name) then
      names[#names + 1] = name
      values[name] = page[2][i + 1]
    end
  end
  table.sort(names, precedes_by_bytes)
  return names, values, page[1]
end
