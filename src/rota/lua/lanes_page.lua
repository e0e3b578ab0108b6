#!lua flags=no-writes
-- include: clock record sequence_name limits lane_row
-- args: cursor limit
-- resend: yes
-- A page of the queue's lanes: those with work first, then running, configured and paused ones.
-- cursor: '' at the start, then what the last reply gave; a reply with '' is the last page.
-- Each lane comes once, unless it changes between pages.
-- Reply: now, cursor, rows (see lane_row)
local indexes = {
  { k_gwaiting, 'HSCAN', 'HEXISTS', 2 },
  { k_gactive, 'HSCAN', 'HEXISTS', 2 },
  { k_glimit, 'HSCAN', 'HEXISTS', 2 },
  { k_gweight, 'HSCAN', 'HEXISTS', 2 },
  { k_gmax, 'HSCAN', 'HEXISTS', 2 },
  { k_paused, 'SSCAN', 'SISMEMBER', 1 },
}
local phase, at = cursor:match('^(%d+):(%d+)$')
phase = tonumber(phase or 1)
local index = indexes[phase]
local page = redis.call(index[2], index[1], at or '0', 'COUNT', limit)
local rows = {}
for i = 1, #page[2], index[4] do
  local lane, known = page[2][i], false
  for earlier = 1, phase - 1 do
    known = known or redis.call(indexes[earlier][3], indexes[earlier][1], lane) == 1
  end
  if not known then
    rows[#rows + 1] = lane_row(lane)
  end
end
local following = phase .. ':' .. page[1]
if page[1] == '0' then
  following = phase < #indexes and (phase + 1) .. ':0' or ''
end
return { now, following, rows }
