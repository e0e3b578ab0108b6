-- Puts a lane into the ring, or takes it out, as its state says: the one rule of membership.
-- In the ring exactly when it has an entry pending, is neither paused nor blocked, and has a
-- free permit. Rings when the lane may be served.
local function may_be_served(lane)
  return redis.call('EXISTS', k_pending(lane)) == 1
    and redis.call('SISMEMBER', k_paused, lane) == 0
    and not redis.call('ZSCORE', k_blocked, 'l:' .. lane)
    and tonumber(redis.call('HGET', k_gactive, lane) or 0) < ceiling_from(redis.call('HGET', k_glimit, lane))
end

local function reconcile(lane)
  local tag = redis.call('ZSCORE', k_ring, lane)
  if may_be_served(lane) then
    if not tag then
      redis.call('ZADD', k_ring, joining_tag(lane), lane)
    end
    wake()
  elseif tag then
    redis.call('ZREM', k_ring, lane)
    redis.call('ZADD', k_owed, tag, lane)
  end
end
