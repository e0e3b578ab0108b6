#!lua flags=no-writes
-- include: delivery
-- args: consumers after cursor limit
-- resend: yes
-- Which of their jobs in flight consumers were asked to cancel. It looks through what they hold, not
-- through the flags: that is bounded by the asker's own slots, whatever others have flagged. A page
-- looks at about `limit` jobs: of the consumer after the first `after`, from `cursor` in its hash, on.
-- Reply: after, cursor (to go on from; after = number of consumers at the end), rows {consumer,
-- id, delivery}
local rows, looked = {}, 0

local function look(consumer, fields)
  local ids, deliveries = jobs_among(fields)
  looked = looked + 1 + #ids
  local flags = #ids > 0 and redis.call('HMGET', k_cancels, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    if flags[i] then
      rows[#rows + 1] = { consumer, id, number_of_delivery(deliveries[i]) }
    end
  end
end

if redis.call('EXISTS', k_cancels) == 0 then
  return { #consumers, '0', rows }
end
while after < #consumers and looked < limit do
  local consumer = consumers[after + 1]
  local page = redis.call('HSCAN', k_consumer(consumer), cursor, 'COUNT', limit)
  look(consumer, page[2])
  cursor = page[1]
  if cursor == '0' then
    after = after + 1
  end
end
return { after, cursor, rows }
