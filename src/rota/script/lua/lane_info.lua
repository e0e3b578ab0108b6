#!lua flags=no-writes
-- include: clock lane_rows
-- args: lane
-- resend: yes
-- Reply: now, row (see lane_rows)
return { now, lane_rows({ lane })[1] }
