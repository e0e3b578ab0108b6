#!lua flags=allow-oom
-- include: consumer
-- args: consumer word
-- resend: receipt
-- sealed: goes on
-- Asks the process of a consumer to claim nothing more, or to stop; it hears of it with a beat. A consumer
-- that was asked to stop stays so. word: quiet · stop
-- Reply: 1, or 0 where it has no lease
if not lease_of(consumer) then
  return 0
end
if redis.call('HGET', k_orders, consumer) ~= 'stop' then
  redis.call('HSET', k_orders, consumer, word)
end
return 1
