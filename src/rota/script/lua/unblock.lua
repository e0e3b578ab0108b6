#!lua flags=allow-oom
-- include: bell reconcile
-- args: lane
-- resend: receipt
-- Ends a lane's block before its time.
-- Reply: 1 it was blocked, 0 it was not
local was = redis.call('ZREM', k_blocked, 'l:' .. lane)
redis.call('HDEL', k_why, 'l:' .. lane)
reconcile({ lane })
ring_bell()
return was
