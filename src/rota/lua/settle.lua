#!lua flags=allow-oom
-- include: clock bell lists record sequence_name delivery holding limits turn reconcile offer changes give_back bury complete
-- args: consumer entries
-- resend: yes
-- Settles jobs in flight, each in its own way; the first ending of a delivery wins.
-- entries: rows {id, delivery, action, delay, error, hold}; action: complete · retry (an attempt
-- counts) · release (none does) · bury; delay in ms; error: JSON text kept with the job, or
-- false; hold: a buried job of a sequence stops it.
-- Reply: one word per row: ok · settled (this delivery is not held) · lost (the lease is gone)
local lease = redis.call('ZSCORE', k_consumers, consumer)
local answers = {}

local function settle(row)
  local id, delivery, action, delay, err, hold = unpack(row, 1, 6)
  local text = redis.call('HGET', k_consumer(consumer), id)
  local held = text and read_delivery(text)
  if not held or held.delivery ~= delivery then
    return 'settled'
  end
  if action == 'complete' then
    return complete(consumer, { id }, { delivery })[1]
  end
  if action ~= 'release' then
    redis.call('HINCRBY', k_attempts, id, 1)
  end
  if action == 'bury' then
    bury(consumer, id, held, err or '{}', hold)
    return 'ok'
  end
  if err then
    redis.call('HSET', k_errors, id, err)
  end
  count_total(action == 'retry' and 'retried' or 'released', 1)
  give_back(consumer, id, held, delay)
  return 'ok'
end

for i, row in ipairs(entries) do
  if lease and lease ~= '-inf' then
    answers[i] = settle(row)
  else
    answers[i] = 'lost'
  end
end
write_changes()
ring_bell()
return answers
