#!lua flags=no-writes
-- include: clock
-- resend: yes
-- Totals of the queue.
-- fields: stats delayed dead lanes_waiting lanes_ready lanes_paused consumers
-- fields: default_ceiling default_weight ceiling pause_note pause_ends
-- stats: flat. consumers: with a lease. Limits: '' none. pause_note: JSON, '' not paused; pause_ends: Unix
-- ms, 0 no end.
local set = redis.call('HMGET', k_config, 'default_ceiling', 'default_weight', 'ceiling', 'paused')
return {
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
}
