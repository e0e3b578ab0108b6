#!lua flags=allow-oom
-- include: bell blocked reconcile
-- args: lane
-- resend: receipt
-- Ends a lane's block before its time.
-- Reply: 1 it was blocked, 0 it was not
local was = unblock('l:' .. lane)
reconcile({ lane })
ring_bell()
return was
