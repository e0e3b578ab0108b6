#!lua flags=no-writes
-- include: clock lists attempt record sequence_name limits backlog figures available lane_rows
-- args: lane
-- resend: yes
-- Reply: now, row (see lane_rows)
return { now, lane_rows({ lane })[1] }
