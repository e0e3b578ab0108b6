#!lua flags=allow-oom
-- include: consumer delivery
-- args: consumer number cursor limit
-- resend: yes
-- sealed: goes on
-- Raises a consumer's claim number, so that a claim still on its way bounces, and lists a page
-- of what it holds.
-- Reply: status (ok · lost), cursor ('0' at the end), ids, deliveries
if not lease_of(consumer) then
  return { 'lost', '0', {}, {} }
end
local hash = k_consumer(consumer)
if number > tonumber(redis.call('HGET', hash, '!claim') or 0) then
  redis.call('HSET', hash, '!claim', number)
end
local page = redis.call('HSCAN', hash, cursor, 'COUNT', limit)
local ids, deliveries = jobs_among(page[2])
for i, text in ipairs(deliveries) do
  deliveries[i] = number_of_delivery(text) or '0' -- damaged: nobody's
end
return { 'ok', page[1], ids, deliveries }
