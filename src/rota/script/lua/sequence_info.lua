#!lua flags=no-writes
-- include: sequence_row
-- args: lane key
-- resend: yes
-- A sequence as it stands.
-- Reply: a row (see sequence_row), or an empty list where there is nothing of it
return sequence_row(lane, key) or {}
