#!lua flags=no-writes
-- include: clock figures lane_rows walk
-- args: cursor limit
-- resend: yes
-- A page of the lanes that want turns or had some of late: those served in the minute before the one in
-- which the first page was asked for, then those in the ring, then those served in that minute.
-- cursor: {} at the start; else {minute, phase, where in it to go on}.
-- Lanes enter and leave the ring all the time. So that none is missed, a lane is left out only where it
-- was given by the minute before, which changes no more; others may come twice.
-- Reply: now, cursor ({} after the last page), rows (see lane_rows)
local minute, phase, at = cursor[1] or minute_text(0), tonumber(cursor[2] or 1), cursor[3] or '0'
local indexes = {
  { k_figures(string.format('%.0f', minute - 1)), 'HSCAN', 'HMGET', 2 },
  { k_ring, 'ZSCAN', 'ZMSCORE', 2 },
  { k_figures(minute), 'HSCAN', 'HMGET', 2 },
}
local lanes, after = scan_index(indexes[phase], at, limit)
local function wants_turns(name, in_ring, served, charged)
  return name ~= '' and (in_ring or served > 0 or charged > 0) -- '': the sum; a minute may be over
end

local rows = lane_rows(not_given({ indexes[1] }, phase, lanes), wants_turns)
local following = after == '0' and phase + 1 or phase
return { now, following > #indexes and {} or { minute, tostring(following), after }, rows }
