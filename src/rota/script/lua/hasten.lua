#!lua flags=allow-oom
-- include: bell changes dead_job home promote record
-- args: id
-- resend: receipt
-- A delayed job becomes due now, and so does the retry for which a sequence waits.
-- Reply: ok · waiting (it may run as it is) · running · dead (left alone) · none (no such job)
local function hasten()
  if redis.call('EXISTS', k_job(id)) == 0 then
    return 'none'
  elseif redis.call('ZSCORE', k_dead, id) then
    return 'dead'
  end
  local prefix, header = read_head(id)
  local member = prefix and place_text(prefix.place) .. id
  if member and redis.call('ZSCORE', k_scheduled, member) then
    promote_jobs({ member })
    return 'ok'
  elseif not header or not header.lane then
    return 'running'
  elseif holds_sequence(id, header) then
    free_sequence(id, header)
    return 'ok'
  end
  return redis.call('ZSCORE', waits_in(home_of(header)), id) and 'waiting' or 'running'
end

local answer = hasten()
write_changes()
ring_bell()
return answer
