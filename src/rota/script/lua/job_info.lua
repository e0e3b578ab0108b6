#!lua flags=no-writes
-- include: job_rows state
-- args: id
-- resend: yes
-- Where a job stands. state: waiting · delayed · running · dead · none (no such job).
-- Reply: state, rows (see job_rows): one, or none where there is no such job
if redis.call('EXISTS', k_job(id)) == 0 then
  return { 'none', {} }
end
local state, time = where_is(id)
look_at_job(id, '', '', time, '')
return { state, job_rows }
