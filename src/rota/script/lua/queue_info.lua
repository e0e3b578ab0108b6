#!lua flags=no-writes
-- include: clock next_due
-- resend: yes
-- Totals of the queue.
-- Reply: now, stats (flat), delayed, dead, lanes waiting, lanes in the ring, lanes paused,
--   consumers with a lease, default ceiling, default weight, the queue's ceiling (each '' none),
--   gate (JSON why, '' open), until (Unix ms, 0 no end), due
local set = redis.call('HMGET', k_config, 'default_ceiling', 'default_weight', 'ceiling', 'paused')
return {
  now,
  redis.call('HGETALL', k_stats),
  redis.call('ZCARD', k_scheduled),
  redis.call('ZCARD', k_dead),
  redis.call('HLEN', k_gwaiting),
  redis.call('ZCARD', k_ring),
  redis.call('SCARD', k_paused),
  redis.call('ZCOUNT', k_consumers, '(' .. string.format('%.0f', now), '+inf'),
  set[1] or '',
  set[2] or '',
  set[3] or '',
  set[4] or '',
  tonumber(redis.call('ZSCORE', k_blocked, 'q:') or 0),
  next_due(),
}
