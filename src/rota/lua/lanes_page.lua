#!lua flags=no-writes
-- include: clock record sequence_name limits lane_row
-- args: cursor limit
-- resend: yes
-- A page of the queue's lanes: those with work first, then running, configured and paused ones,
-- then those of the next 10,000 jobs to fall due.
-- cursor: '' at the start, then what the last reply gave; a reply with '' is the last page.
-- Each lane comes once, unless it changes between pages.
-- Reply: now, cursor, rows (see lane_row)
local DELAYED_MAX = 10000
local indexes = {
  { k_gwaiting, 'HSCAN', 'HEXISTS', 2 },
  { k_gactive, 'HSCAN', 'HEXISTS', 2 },
  { k_glimit, 'HSCAN', 'HEXISTS', 2 },
  { k_gweight, 'HSCAN', 'HEXISTS', 2 },
  { k_gmax, 'HSCAN', 'HEXISTS', 2 },
  { k_paused, 'SSCAN', 'SISMEMBER', 1 },
}
local phase, at = cursor:match('^(%d+):(%d+)$')
phase, at = tonumber(phase or 1), at or '0'

local function is_listed(lane)
  for earlier = 1, math.min(phase - 1, #indexes) do
    if redis.call(indexes[earlier][3], indexes[earlier][1], lane) == 1 then
      return true
    end
  end
  return false
end

-- Lanes that only have delayed jobs are in no index: they are found by the next jobs to fall due.
local function delayed_lanes()
  local first = tonumber(at)
  local page = redis.call('ZRANGE', k_scheduled, first, first + limit - 1)
  local lanes, seen = {}, {}
  for _, member in ipairs(page) do
    local _, header = read_head(member:sub(PLACE_WIDTH + 1))
    local lane = header and header.lane
    if lane and not seen[lane] then
      seen[lane] = true
      lanes[#lanes + 1] = lane
    end
  end
  local following = first + limit
  return lanes, #page == limit and following < DELAYED_MAX and phase .. ':' .. following or ''
end

local function indexed_lanes()
  local index = indexes[phase]
  local page = redis.call(index[2], index[1], at, 'COUNT', limit)
  local lanes = {}
  for i = 1, #page[2], index[4] do
    lanes[#lanes + 1] = page[2][i]
  end
  return lanes, page[1] == '0' and (phase + 1) .. ':0' or phase .. ':' .. page[1]
end

local lanes, following
if phase > #indexes then
  lanes, following = delayed_lanes()
else
  lanes, following = indexed_lanes()
end
local rows = {}
for _, lane in ipairs(lanes) do
  if not is_listed(lane) then
    rows[#rows + 1] = lane_row(lane)
  end
end
return { now, following, rows }
