#!lua flags=allow-oom
-- include: clock delivery
-- args: consumer lane by cursor limit
-- resend: receipt
-- Asks to cancel a consumer's jobs of a lane, as cancel.lua does for one: a page of its hash.
-- Reply: cursor ('0' at the end), asked
local why = cjson.encode({ by = by ~= '' and by or nil, at = now })
local page = redis.call('HSCAN', k_consumer(consumer), cursor, 'COUNT', limit)
local ids, texts = jobs_among(page[2])
local asked = 0
for i, text in ipairs(texts) do
  local held = read_delivery(text)
  if held and held.lane == lane then
    redis.call('HSETNX', k_cancels, ids[i], why)
    asked = asked + 1
  end
end
return { page[1], asked }
