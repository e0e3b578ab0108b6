#!lua flags=no-writes
-- include: clock lists record sequence_name limits backlog figures available lane_rows walk
-- args: cursor limit
-- resend: yes
-- A page of the lanes that want turns or had some of late: those in the ring, then those served in
-- the minute in which the first page was asked for, then in the minute before.
-- cursor: '' at the start, then what the last reply gave; a reply with '' is the last page.
-- Each lane comes once, unless it changes between pages.
-- Reply: now, cursor, rows (see lane_rows)
local minute, phase, at = cursor:match('^(%d+):(%d+):(%d+)$')
minute, phase, at = minute or minute_text(0), tonumber(phase or 1), at or '0'
local indexes = {
  { k_ring, 'ZSCAN', 'ZMSCORE', 2 },
  { k_served(minute), 'HSCAN', 'HMGET', 2 },
  { k_served(string.format('%.0f', minute - 1)), 'HSCAN', 'HMGET', 2 },
}
local lanes, after = scan_index(indexes[phase], at, limit)
local rows = {}
for _, row in ipairs(lane_rows(not_given(indexes, phase, lanes))) do
  local name, ready, served, charged = row[1], row[9], row[18], tonumber(row[20])
  if name ~= '' and (ready == 1 or served > 0 or charged > 0) then -- '': the sum; a minute may be over
    rows[#rows + 1] = row
  end
end
local following = after == '0' and phase + 1 or phase
return { now, following > #indexes and '' or minute .. ':' .. following .. ':' .. after, rows }
