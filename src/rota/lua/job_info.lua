#!lua flags=no-writes
-- include: clock record sequence_name jobs_held
-- args: id
-- resend: yes
-- Where a job stands. state: waiting · delayed · running · dead · none (no such job). One whose record
-- cannot be read waits where no consumer holds it.
-- Reply: now, state, record, attempts, deaths, error, due (Unix ms a delayed or dead job's time)
local record = redis.call('GET', k_job(id))
if not record then
  return { now, 'none', '', 0, 0, '', 0 }
end
local prefix = read_prefix(id)
local _, header = read_whole(id)
local function place()
  local dead = redis.call('ZSCORE', k_dead, id)
  if dead then
    return 'dead', tonumber(dead)
  end
  local due = prefix and redis.call('ZSCORE', k_scheduled, place_text(prefix.place) .. id)
  if due then
    return 'delayed', tonumber(due)
  end
  if not header then
    return is_in_hands(id) and 'running' or 'waiting', 0
  end
  local lane = header.lane
  local key = is_ordered(lane) and '' or header.key
  local home = key and k_sequence(sequence_of(lane, key)) or k_pending(lane)
  return redis.call('ZSCORE', home, id) and 'waiting' or 'running', 0
end
local state, due = place()
return {
  now,
  state,
  record,
  count_of(k_attempts, id),
  count_of(k_deaths, id),
  redis.call('HGET', k_errors, id) or '',
  due,
}
