#!lua flags=allow-oom
-- include: bell blocked changes clock holding sequence_name
-- args: lane key id by
-- resend: receipt
-- A sequence goes on past the job that stops it: the hold of a dead job ends, and that stays dead; a head
-- that waits for its retry goes to the dead, with who skipped it.
-- Reply: ok · none (the job does not stop the sequence)
local sequence = sequence_of(lane, key)
local block = 'h:' .. sequence

-- What is kept with the job: its last error, and below it that it was skipped.
local function note()
  local ok, old = pcall(cjson.decode, redis.call('HGET', k_errors, id) or '{}')
  old = ok and type(old) == 'table' and old or {}
  local text = by ~= '' and 'skipped by ' .. by or 'skipped'
  if type(old.error) == 'string' then
    text = old.error .. '\n' .. text
  end
  local worker = type(old.worker) == 'string' and old.worker or nil
  return cjson.encode({ error = text, worker = worker, at = now })
end

local function bury_head()
  if redis.call('ZREM', k_sequence(sequence), id) == 0 then
    return false
  end
  count_waiting(lane, -1)
  count_total('waiting', -1)
  redis.call('ZADD', k_dead, now, id)
  redis.call('HSET', k_errors, id, note())
  count_total('buried', 1)
  end_move(sequence)
  return true
end

if redis.call('HGET', k_why, block) ~= id or not (redis.call('ZSCORE', k_dead, id) or bury_head()) then
  return 'none'
end
unblock(block)
touch(lane, key)
write_changes()
ring_bell()
return 'ok'
