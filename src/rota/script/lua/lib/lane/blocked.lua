-- include: bell
-- exports: out_until block_until unblock
-- What stays out until a time stands in `blocked`, and in `why` what is noted of it:
--   q: the queue, paused · p:<lane> paused · l:<lane> blocked · r:<lane> out of rate
--   s:<sequence> blocked · h:<sequence> its head waits for a retry, or is a dead job that holds it
-- Where it is the next to fall due, sleepers are told.
local function out_until(member, till)
  local first = redis.call('ZRANGE', k_blocked, 0, 0, 'WITHSCORES')[2]
  if not first or tonumber(till) < tonumber(first) then
    wake_timers()
  end
  redis.call('ZADD', k_blocked, till, member)
end

local function block_until(member, till, why)
  out_until(member, till)
  redis.call('HSET', k_why, member, why)
end

-- Says (1 or 0) whether it was in `blocked`.
local function unblock(member)
  redis.call('HDEL', k_why, member)
  return redis.call('ZREM', k_blocked, member)
end
