#!lua flags=no-writes
-- include: clock lane_rows
-- args: lanes
-- resend: yes
-- Reply: now, rows (see lane_rows)
return { now, lane_rows(lanes) }
