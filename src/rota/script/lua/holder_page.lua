#!lua flags=no-writes
-- include: consumer
-- args: id cursor limit
-- resend: yes
-- Looks for a running job among a page of the consumers. cursor '0' at the start and after the last
-- page; a page that has found it is the last.
-- Reply: cursor, holders {consumer, name, lease's end (Unix ms; -1 marked gone)}, at most one
local page = redis.call('ZSCAN', k_consumers, cursor, 'COUNT', limit)
for i = 1, #page[2], 2 do
  local hash = k_consumer(page[2][i])
  if redis.call('HEXISTS', hash, id) == 1 then
    local ends = page[2][i + 1] == '-inf' and -1 or tonumber(page[2][i + 1])
    return { '0', { { page[2][i], consumer_name(page[2][i]) or '', ends } } }
  end
end
return { page[1], {} }
