-- exports: read_gate
-- The queue's own gate, read first by a claim: how many permits it lets out. A paused or
-- sealed queue none; a queue with a ceiling, what is left of it. What stands in the ring does not count
-- while it is shut.
-- change: of the permits held, not written yet.
local function read_gate(change)
  local set = redis.call('HMGET', k_config, 'paused', 'ceiling', 'large', 'sealed')
  if set[1] or set[4] then
    return 0, set[3]
  elseif set[2] then
    local held = tonumber(redis.call('HGET', k_stats, 'permits') or 0) + change
    return math.max(0, tonumber(set[2]) - held), set[3]
  end
  return math.huge, set[3]
end
