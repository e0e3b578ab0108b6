#!lua flags=allow-oom
-- include: bell blocked stamp
-- args: until_ms why
-- resend: yes
-- Pauses the whole queue until resumed, or until `until_ms` (Unix ms; -1 no end). What is in flight
-- goes on. why: JSON {reason, by}, kept with the time. Pausing again replaces end and reason.
-- Reply: 1
redis.call('HSETNX', k_config, 'needs', 1)
redis.call('HSET', k_config, 'paused', stamped(why))
redis.call('ZREM', k_blocked, 'q:')
if until_ms >= 0 then
  out_until('q:', until_ms)
end
ring_bell()
return 1
