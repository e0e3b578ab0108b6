-- exports: jobs_held one_holds is_in_hands
-- How many jobs a consumer holds: its hash has a field for each, and some of its own.
local function jobs_held(consumer)
  local hash = k_consumer(consumer)
  local held = redis.call('HLEN', hash)
  for _, own in ipairs(redis.call('HMGET', hash, '!claim', '!name', '!lease', '!spared')) do
    held = held - (own and 1 or 0)
  end
  return held
end

local function one_holds(consumers, id)
  for _, consumer in ipairs(consumers) do
    if redis.call('HEXISTS', k_consumer(consumer), id) == 1 then
      return true
    end
  end
  return false
end

-- Whether a consumer holds the job: asked where its record does not tell its place.
local HANDS_MAX = 5000

local function is_in_hands(id)
  return one_holds(redis.call('ZRANGE', k_consumers, 0, HANDS_MAX - 1), id)
end
