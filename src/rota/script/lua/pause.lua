#!lua flags=allow-oom
-- include: bell blocked reconcile stamp
-- args: lane until_ms why
-- resend: yes
-- Keeps a lane out of the ring until resumed, or until `until_ms` (Unix ms; -1 no end). What is
-- in flight goes on. why: JSON {reason, by}, kept with the time. Pausing again replaces end and reason.
-- Reply: 1
redis.call('HSETNX', k_config, 'needs', 1)
redis.call('SADD', k_paused, lane)
redis.call('HSET', k_why, 'p:' .. lane, stamped(why))
redis.call('ZREM', k_blocked, 'p:' .. lane)
if until_ms >= 0 then
  out_until('p:' .. lane, until_ms)
end
reconcile({ lane })
ring_bell()
return 1
