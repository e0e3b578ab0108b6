#!lua flags=no-writes
-- include: clock figures lane_rows walk
-- args: cursor limit
-- resend: yes
-- A page of the lanes that want turns or had some of late: those served in the minute before the one in
-- which the first page was asked for, then those in the ring, then those served in that minute.
-- cursor: '' at the start, then what the last reply gave; a reply with '' is the last page.
-- Lanes enter and leave the ring all the time. So that none is missed, a lane is left out only where it
-- was given by the minute before, which changes no more; others may come twice.
-- Reply: now, cursor, rows (see lane_rows)
local minute, phase, at = cursor:match('^(%d+):(%d+):(%d+)$')
minute, phase, at = minute or minute_text(0), tonumber(phase or 1), at or '0'
local indexes = {
  { k_figures(string.format('%.0f', minute - 1)), 'HSCAN', 'HMGET', 2 },
  { k_ring, 'ZSCAN', 'ZMSCORE', 2 },
  { k_figures(minute), 'HSCAN', 'HMGET', 2 },
}
local lanes, after = scan_index(indexes[phase], at, limit)
local rows = {}
for _, row in ipairs(lane_rows(not_given({ indexes[1] }, phase, lanes))) do
  local name, ready, served, charged = row[1], row[9], row[18], tonumber(row[20])
  if name ~= '' and (ready == 1 or served > 0 or charged > 0) then -- '': the sum; a minute may be over
    rows[#rows + 1] = row
  end
end
local following = after == '0' and phase + 1 or phase
return { now, following > #indexes and '' or minute .. ':' .. following .. ':' .. after, rows }
