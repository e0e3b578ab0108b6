-- include: bell
-- exports: out_until
-- Enters what stays out until a time in `blocked`; where that is the next to fall due, sleepers are told.
local function out_until(member, till)
  local first = redis.call('ZRANGE', k_blocked, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(till) < tonumber(first) then
    wake_timers()
  end
  redis.call('ZADD', k_blocked, till, member)
end
