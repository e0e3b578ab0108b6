-- The queue's own gate, read first by a claim: how many permits it lets out. A paused queue none; a
-- queue with a ceiling, what is left of it. What stands in the ring does not count while it is shut.
local function read_gate()
  local set = redis.call('HMGET', k_config, 'paused', 'ceiling', 'large')
  if set[1] then
    return 0, set[3]
  elseif set[2] then
    return math.max(0, tonumber(set[2]) - tonumber(redis.call('HGET', k_stats, 'permits') or 0)), set[3]
  end
  return math.huge, set[3]
end
