-- include: consumer home record
-- exports: state_of where_is
-- Where a job that has a record stands, and, of one delayed or dead, its time (Unix ms; else 0). nil where
-- its record does not tell its lane.
local function state_of(id)
  local dead = redis.call('ZSCORE', k_dead, id)
  if dead then
    return 'dead', tonumber(dead)
  end
  local prefix = read_prefix(id)
  local due = prefix and redis.call('ZSCORE', k_scheduled, place_text(prefix.place) .. id)
  if due then
    return 'delayed', tonumber(due)
  end
  local _, header = read_whole(id)
  if not header then
    return nil, 0
  end
  return redis.call('ZSCORE', waits_in(home_of(header)), id) and 'waiting' or 'running', 0
end

-- The same of any such job: one whose record does not tell its lane waits where no consumer holds it.
local function where_is(id)
  local state, time = state_of(id)
  return state or (is_in_hands(id) and 'running' or 'waiting'), time
end
