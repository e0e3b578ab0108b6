#!lua flags=allow-oom
-- include: clock bell lists record sequence_name delivery holding limits turn reconcile offer changes give_back bury reap
-- args: consumer limit
-- resend: yes
-- Ends a lease on its holder's wish, or an operator's: what it holds goes back uncounted, in pages.
-- Reply: more (1: call again), back, known (0: there was no such lease)
local known = redis.call('ZSCORE', k_consumers, consumer)
if known then
  mark_gone(consumer)
end
redis.call('HSET', k_consumer(consumer), '!spared', 1)
local back, empty = reap_consumer(consumer, limit, false)
count_total('released', back)
write_changes()
ring_bell()
return { empty and 0 or 1, back, known and 1 or 0 }
