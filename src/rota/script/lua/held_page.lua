#!lua flags=no-writes
-- include: delivery
-- args: consumer lane cursor limit
-- resend: yes
-- A page of the jobs of a lane that a consumer holds. cursor '0' at the start and after the last page.
-- Reply: cursor, ids, deliveries (see lib/claim/delivery)
local page = redis.call('HSCAN', k_consumer(consumer), cursor, 'COUNT', limit)
local ids, deliveries = {}, {}
for i = 1, #page[2], 2 do
  local id, text = page[2][i], page[2][i + 1]
  local held = not is_own(id) and read_delivery(text)
  if held and held.lane == lane then
    ids[#ids + 1] = id
    deliveries[#deliveries + 1] = text
  end
end
return { page[1], ids, deliveries }
