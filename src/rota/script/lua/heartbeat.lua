#!lua flags=allow-oom
-- include: attempt clock consumer
-- args: lease_ms consumers
-- resend: yes
-- sealed: goes on
-- Renews leases that exist; a lease that ended is never brought back.
-- Reply: per consumer {claim, held}: the number of its last claim, how many jobs it holds; {} where its
-- lease is lost
local answers = {}
for i, consumer in ipairs(consumers) do
  if lease_of(consumer) then
    redis.call('ZADD', k_consumers, 'XX', now + lease_ms, consumer)
    local hash = k_consumer(consumer)
    local claim = attempt('HGET', hash, '!claim')
    answers[i] = { tonumber(claim or 0) or 0, claim and jobs_held(consumer) or 0 }
  else
    answers[i] = {}
  end
end
return answers
