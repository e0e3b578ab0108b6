#!lua flags=allow-oom
-- include: consumer delivery
-- args: consumer id delivery
-- resend: yes
-- sealed: goes on
-- Marks a job with a death behind it as started, before it is run.
-- Reply: ok · settled · lost
if not lease_of(consumer) then
  return 'lost'
end
local text = redis.call('HGET', k_consumer(consumer), id)
local held = text and read_delivery(text)
if not held or held.delivery ~= delivery then
  return 'settled'
end
redis.call('HSET', k_consumer(consumer), id, delivery_text(delivery, held.score, '-', held.home))
return 'ok'
