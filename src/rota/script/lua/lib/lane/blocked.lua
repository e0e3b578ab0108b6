-- include: bell
-- exports: out_until block_until unblock
-- What stays out until a time stands in `blocked`, and in `why` what is noted of it:
--   q: the queue, paused · p:<lane> paused · l:<lane> blocked · r:<lane> out of rate
--   s:<sequence> blocked · h:<sequence> its head waits for a retry, or is a dead job that holds it
local function out_until(member, till)
  note_due(k_blocked, tonumber(till))
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
