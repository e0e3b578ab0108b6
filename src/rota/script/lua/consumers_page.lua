#!lua flags=no-writes
-- include: clock consumer
-- args: cursor limit
-- resend: yes
-- A page of the consumers that have a lease. cursor '0' at the start and after the last page.
-- Reply: now, cursor, rows
-- fields: id deadline name held asked
-- deadline: Unix ms; -1 marked gone. held: how many jobs. asked: quiet · stop, '' nothing.
local page = redis.call('ZSCAN', k_consumers, cursor, 'COUNT', limit)
local rows = {}
for i = 1, #page[2], 2 do
  local consumer, deadline = page[2][i], page[2][i + 1]
  rows[#rows + 1] = {
    consumer,
    deadline == '-inf' and -1 or tonumber(deadline),
    consumer_name(consumer) or '',
    jobs_held(consumer),
    redis.call('HGET', k_orders, consumer) or '',
  }
end
return { now, page[1], rows }
