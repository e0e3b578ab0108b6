#!lua flags=no-writes
-- include: fingerprint
-- args: active cursor limit
-- resend: yes
-- A page of the counts per lane: of permits (`active`), else of waiting jobs.
-- Reply: fingerprint (see audit_recount), cursor ('0' at the end), lanes and counts, flat
local page = redis.call('HSCAN', active and k_gactive or k_gwaiting, cursor, 'COUNT', limit)
return { fingerprint(), page[1], page[2] }
