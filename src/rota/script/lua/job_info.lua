#!lua flags=no-writes
-- include: consumer job_rows state
-- args: id
-- resend: yes
-- Where a job stands. state: waiting · delayed · running · dead · none (no such job). One whose record
-- cannot be read waits where no consumer holds it.
-- Reply: state, rows (see job_rows): one, or none where there is no such job
if redis.call('EXISTS', k_job(id)) == 0 then
  return { 'none', {} }
end
local state, time = state_of(id)
look_at_job(id, '', '', time, '')
return { state or (is_in_hands(id) and 'running' or 'waiting'), job_rows }
