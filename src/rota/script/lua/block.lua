#!lua flags=allow-oom
-- include: bell blocked clock reconcile stamp
-- args: lane ms why
-- resend: receipt
-- Keeps a lane out of the ring for `ms` from now; only ever extends. why: JSON {reason, by}, kept with the time.
-- Reply: until (Unix ms)
redis.call('HSETNX', k_config, 'needs', 1)
local member = 'l:' .. lane
local old = redis.call('ZSCORE', k_blocked, member)
local till = math.max(now + ms, tonumber(old or 0))
block_until(member, till, stamped(why))
reconcile({ lane })
ring_bell()
return till
