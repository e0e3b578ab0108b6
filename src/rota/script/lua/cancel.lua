#!lua flags=allow-oom
-- include: attempt bell changes clock dead_job forget holding home record sequence_name
-- args: id by
-- resend: receipt
-- Cancels a job: deletes it where it waits or is delayed; in flight, it is flagged in `cancels` (JSON
-- {by, at}; the first who asked stays named), and its worker and its next ending see to it.
-- Reply: cancelled (deleted) · asked (in flight) · dead (left alone) · none (no such job)
local function take_delayed(prefix, header)
  local member = prefix and place_text(prefix.place) .. id
  if not member or redis.call('ZREM', k_scheduled, member) == 0 then
    return false
  end
  if header and header.lane then
    attempt('ZREM', k_delayed(header.lane), member)
  end
  return true
end

-- A head whose delay blocks its sequence takes the block with it.
local function take_waiting(header)
  local lane, key = home_of(header)
  if redis.call('ZREM', waits_in(lane, key), id) == 0 then
    return false
  end
  count_waiting(lane, -1)
  count_total('waiting', -1)
  touch(lane, key)
  if key then
    free_sequence(id, header)
    end_move(sequence_of(lane, key))
  end
  return true
end

if redis.call('EXISTS', k_job(id)) == 0 then
  return 'none'
elseif redis.call('ZSCORE', k_dead, id) then
  return 'dead'
end
local prefix, header = read_head(id)
if not take_delayed(prefix, header) and not (header and header.lane and take_waiting(header)) then
  redis.call('HSETNX', k_cancels, id, cjson.encode({ by = by ~= '' and by or nil, at = now }))
  return 'asked'
end
forget({ id })
count_total('cancelled', 1)
write_changes()
ring_bell()
return 'cancelled'
