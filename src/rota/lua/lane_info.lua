#!lua flags=no-writes
-- include: clock record sequence_name limits lane_row
-- args: lane
-- resend: yes
-- Reply: now, row (see lane_row)
return { now, lane_row(lane) }
