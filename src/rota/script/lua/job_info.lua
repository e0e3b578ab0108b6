#!lua flags=no-writes
-- include: clock jobs_held record state
-- args: id
-- resend: yes
-- Where a job stands. state: waiting · delayed · running · dead · none (no such job). One whose record
-- cannot be read waits where no consumer holds it.
-- Reply: now, state, record, attempts, deaths, error, due (Unix ms a delayed or dead job's time)
local record = redis.call('GET', k_job(id))
if not record then
  return { now, 'none', '', 0, 0, '', 0 }
end
local state, due = state_of(id)
return {
  now,
  state or (is_in_hands(id) and 'running' or 'waiting'),
  record,
  count_of(k_attempts, id),
  count_of(k_deaths, id),
  redis.call('HGET', k_errors, id) or '',
  due,
}
