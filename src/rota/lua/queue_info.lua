#!lua flags=no-writes
-- include: clock next_due
-- resend: yes
-- Totals of the queue.
-- Reply: now, stats (flat), delayed, dead, lanes waiting, lanes in the ring, lanes paused,
--   consumers with a lease, default ceiling ('' none), gate (JSON why, '' open), due
local config = redis.call('HMGET', k_config, 'default_ceiling', 'paused')
return {
  now,
  redis.call('HGETALL', k_stats),
  redis.call('ZCARD', k_scheduled),
  redis.call('ZCARD', k_dead),
  redis.call('HLEN', k_gwaiting),
  redis.call('ZCARD', k_ring),
  redis.call('SCARD', k_paused),
  redis.call('ZCOUNT', k_consumers, '(' .. string.format('%.0f', now), '+inf'),
  config[1] or '',
  config[2] or '',
  next_due(),
}
