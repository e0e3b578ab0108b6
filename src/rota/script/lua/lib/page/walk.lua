-- include: lists
-- exports: scan_index not_given
-- Walks several indexes of lanes one after the other, in pages. An index: { key, what scans it, what
-- asks it for many lanes at once, values per member of a scan }. A lane is given by the first that
-- has it, so once, unless it changes between pages.
local function scan_index(index, at, count)
  local page, lanes = redis.call(index[2], index[1], at, 'COUNT', count), {}
  for i = 1, #page[2], index[4] do
    lanes[#lanes + 1] = page[2][i]
  end
  return lanes, page[1]
end

local function not_given(indexes, phase, lanes)
  for earlier = 1, math.min(phase - 1, #indexes) do
    local index, left = indexes[earlier], {}
    if #lanes > 0 and redis.call('EXISTS', index[1]) == 1 then
      for i, found in ipairs(fetch_all(index[3], index[1], lanes)) do
        if not found or found == 0 then
          left[#left + 1] = lanes[i]
        end
      end
      lanes = left
    end
  end
  return lanes
end
