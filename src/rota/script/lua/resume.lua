#!lua flags=allow-oom
-- include: bell blocked reconcile
-- args: lane
-- resend: receipt
-- Ends a lane's pause; a lane never paused stays as it is.
-- Reply: 1 it was paused, 0 it was not
local was = redis.call('SREM', k_paused, lane)
unblock('p:' .. lane)
reconcile({ lane })
ring_bell()
return was
