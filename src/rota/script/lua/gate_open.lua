#!lua flags=allow-oom
-- include: bell
-- resend: receipt
-- Ends the pause of the whole queue.
-- Reply: 1 it was paused, 0 it was not
local was = redis.call('HDEL', k_config, 'paused')
redis.call('ZREM', k_blocked, 'q:')
wake()
ring_bell()
return was
