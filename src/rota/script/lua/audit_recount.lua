#!lua flags=no-writes
-- include: fingerprint sequence_name
-- args: lane first limit
-- resend: yes
-- Counts jobs behind a page of a lane's entries, by rank: of `pending`, then of `out`.
-- Reply: fingerprint (equal in all pages: nothing moved meanwhile), jobs, entries, more
local inside = redis.call('ZCARD', k_pending(lane))
local count, seen = 0, 0
local function add(sequence)
  count = count + redis.call('ZCARD', k_sequence(sequence))
end
if first < inside then
  for _, entry in ipairs(redis.call('ZRANGE', k_pending(lane), first, first + limit - 1)) do
    seen = seen + 1
    local key = key_in(entry)
    if key then
      add(sequence_of(lane, key))
    else
      count = count + 1
    end
  end
else
  for _, key in ipairs(redis.call('ZRANGE', k_out(lane), first - inside, first - inside + limit - 1)) do
    seen = seen + 1
    add(sequence_of(lane, key))
  end
end
local more = first + seen < inside + redis.call('ZCARD', k_out(lane))
return { fingerprint(), count, seen, more and 1 or 0 }
