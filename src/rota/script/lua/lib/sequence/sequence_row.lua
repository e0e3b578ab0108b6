-- include: consumer holding sequence_name
-- exports: sequence_row
-- A sequence as a list shows it.
-- fields: lane key state waiting head holder jobs ends note head_dead
-- state: held · blocked · ready. head: the dead job that stops it, or the one whose delay does, else the
-- first that waits; '' none. holder: its name; jobs: those it holds. ends: Unix ms; 0 no end. note: JSON, of
-- its block or of the head's last failure; '' none.
local function stopper_of(sequence)
  local ends = redis.call('ZSCORE', k_blocked, 'h:' .. sequence)
  return ends and redis.call('HGET', k_why, 'h:' .. sequence) or nil, tonumber(ends or 0)
end

local function is_dead(id)
  return id and redis.call('ZSCORE', k_dead, id) and true or false
end

-- false where there is nothing of it: no job waits, none is in flight, and no dead one stops it.
local function sequence_row(lane, key)
  local sequence = sequence_of(lane, key)
  local holding = read_holding(sequence)
  local stopper, delayed = stopper_of(sequence)
  local blocked = redis.call('ZSCORE', k_blocked, 's:' .. sequence)
  local waiting = redis.call('ZCARD', k_sequence(sequence))
  if waiting == 0 and not holding and not is_dead(stopper) then
    return false
  end
  local why = blocked and redis.call('HGET', k_why, 's:' .. sequence)
    or stopper and redis.call('HGET', k_errors, stopper)
  local ends = math.max(delayed, tonumber(blocked or 0))
  return {
    lane,
    key,
    holding and 'held' or (stopper or blocked) and 'blocked' or 'ready',
    waiting,
    stopper or redis.call('ZRANGE', k_sequence(sequence), 0, 0)[1] or '',
    holding and (consumer_name(holding.consumer) or '') or '',
    holding and holding.jobs or {},
    ends < math.huge and ends or 0,
    why or '',
    is_dead(stopper) and 1 or 0,
  }
end
