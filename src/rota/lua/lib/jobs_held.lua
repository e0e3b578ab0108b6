-- How many jobs a consumer holds: its hash has a field for each, and some of its own.
local function jobs_held(consumer)
  local hash = k_consumer(consumer)
  local held = redis.call('HLEN', hash)
  for _, own in ipairs(redis.call('HMGET', hash, '!claim', '!name', '!lease', '!spared')) do
    held = held - (own and 1 or 0)
  end
  return held
end
