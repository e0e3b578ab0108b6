#!lua flags=allow-oom
-- include: bell changes dead_job promote record state
-- args: id
-- resend: receipt
-- A delayed job becomes due now, and so does the retry for which a sequence waits.
-- Reply: ok · waiting (it may run as it is) · running · dead (left alone) · none (no such job)
local function hasten()
  if redis.call('EXISTS', k_job(id)) == 0 then
    return 'none'
  end
  local state = state_of(id)
  if state == 'dead' then
    return 'dead'
  end
  local _, header = read_whole(id)
  if state == 'delayed' then
    local prefix = read_prefix(id) -- where it cannot be read, it is buried as when it falls due
    promote_jobs({ place_text(prefix and prefix.place or 0) .. id })
    return 'ok'
  elseif not header then
    return 'running'
  elseif holds_sequence(id, header) then
    free_sequence(id, header)
    return 'ok'
  end
  return state
end

local answer = hasten()
write_changes()
ring_bell()
return answer
