#!lua flags=allow-oom
-- include: clock
-- args: lease_ms consumers
-- resend: yes
-- Renews leases that exist; a lease that ended is never brought back.
-- Reply: per consumer 1 renewed, 0 lost
local answers = {}
for i, consumer in ipairs(consumers) do
  local deadline = redis.call('ZSCORE', k_consumers, consumer)
  if deadline and deadline ~= '-inf' then
    redis.call('ZADD', k_consumers, 'XX', now + lease_ms, consumer)
    answers[i] = 1
  else
    answers[i] = 0
  end
end
return answers
