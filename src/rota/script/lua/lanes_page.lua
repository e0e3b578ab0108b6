#!lua flags=no-writes
-- include: clock lane_rows record walk
-- args: cursor limit
-- resend: yes
-- A page of the queue's lanes: those with work first, then running, configured and paused ones,
-- then those of the next 10,000 jobs to fall due.
-- cursor: {} at the start; else {phase, where in it to go on}.
-- Each lane comes once, unless it changes between pages.
-- Reply: now, cursor ({} after the last page), rows (see lane_rows)
local DELAYED_MAX = 10000
local indexes = {
  { k_gwaiting, 'HSCAN', 'HMGET', 2 },
  { k_gactive, 'HSCAN', 'HMGET', 2 },
  { k_glimit, 'HSCAN', 'HMGET', 2 },
  { k_gweight, 'HSCAN', 'HMGET', 2 },
  { k_gmax, 'HSCAN', 'HMGET', 2 },
  { k_grate, 'HSCAN', 'HMGET', 2 },
  { k_gtemplate, 'HSCAN', 'HMGET', 2 },
  { k_paused, 'SSCAN', 'SMISMEMBER', 1 },
}
local phase, at = tonumber(cursor[1] or 1), cursor[2] or '0'

-- Lanes that only have delayed jobs are in no index: they are found by the next jobs to fall due.
local function delayed_lanes()
  local first = tonumber(at)
  local page = redis.call('ZRANGE', k_scheduled, first, first + limit - 1)
  local lanes, seen = {}, {}
  for _, member in ipairs(page) do
    local _, header = read_whole(member:sub(PLACE_WIDTH + 1))
    local lane = header and header.lane
    if lane and not seen[lane] then
      seen[lane] = true
      lanes[#lanes + 1] = lane
    end
  end
  local following = first + limit
  return lanes, #page == limit and following < DELAYED_MAX and { tostring(phase), tostring(following) } or {}
end

local lanes, following
if phase > #indexes then
  lanes, following = delayed_lanes()
else
  lanes, at = scan_index(indexes[phase], at, limit)
  following = { tostring(at == '0' and phase + 1 or phase), at }
end
return { now, following, lane_rows(not_given(indexes, phase, lanes)) }
