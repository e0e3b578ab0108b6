#!lua flags=allow-oom
-- include: clock bell lists attempt record sequence_name delivery holding limits out_until rate charge turn
-- include: reconcile offer changes refund forget asked give_back bury cancel_held consumer_name jobs_held reap
-- args: consumer limit
-- resend: receipt
-- Ends a lease on its holder's wish, or an operator's: what it holds goes back uncounted, in pages.
-- Reply: more (1: call again), back, known (0: there was no such lease)
local known = redis.call('ZSCORE', k_consumers, consumer)
if known then
  mark_gone(consumer)
end
attempt('HSET', k_consumer(consumer), '!spared', 1)
local _, empty = reap_consumer(consumer, limit, false)
-- What was asked to be cancelled has left its hands too, but is gone.
local back = -(total_change.running or 0) - (total_change.cancelled or 0)
count_total('released', back)
write_changes()
ring_bell()
return { empty and 0 or 1, back, known and 1 or 0 }
