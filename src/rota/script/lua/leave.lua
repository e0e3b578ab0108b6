#!lua flags=allow-oom
-- include: attempt bell changes reap
-- args: consumer died limit
-- resend: receipt
-- sealed: goes on
-- Ends a lease at once, in pages: on its holder's wish, or an operator's, and what it holds goes back
-- uncounted; or as its process has died: then what had started counts a death, as in a reap.
-- Reply: more (1: call again), back, known (0: there was no such lease)
local known = redis.call('ZSCORE', k_consumers, consumer)
if known then
  mark_gone(consumer)
end
if not died then
  attempt('HSET', k_consumer(consumer), '!spared', 1)
end
local spared = attempt('HEXISTS', k_consumer(consumer), '!spared') == 1
local reaped, empty = reap_consumer(consumer, limit, not spared)
-- What was asked to be cancelled, or is dead, has left its hands too, but did not go back.
local back = -change_of('running') - change_of('cancelled') - change_of('buried')
if died then
  count_total('reaped', reaped)
else
  count_total('released', back)
end
write_changes()
ring_bell()
return { empty and 0 or 1, back, known and 1 or 0 }
