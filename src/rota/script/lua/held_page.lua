#!lua flags=no-writes
-- include: delivery
-- args: consumer lane cursor limit
-- resend: yes
-- A page of the jobs of a lane that a consumer holds. cursor '0' at the start and after the last page.
-- Reply: cursor, ids, deliveries (see lib/claim/delivery)
local page = redis.call('HSCAN', k_consumer(consumer), cursor, 'COUNT', limit)
local all, texts = jobs_among(page[2])
local ids, deliveries = {}, {}
for i, text in ipairs(texts) do
  local held = read_delivery(text)
  if held and held.lane == lane then
    ids[#ids + 1], deliveries[#ids + 1] = all[i], text
  end
end
return { page[1], ids, deliveries }
