-- exports: lease_of padded consumer_name jobs_held one_holds is_in_hands
-- A consumer: its lease in `consumers`, and its hash, which has a field for each job it holds (see
-- delivery.lua) and some of its own:
--   !claim the number of its last claim · !lease in ms · !name for people · !spared as it goes, where no
--   death is to be counted
local OWN = { '!claim', '!name', '!lease', '!spared' }

-- When its lease ends (Unix ms); nil where it has none, or was marked gone.
local function lease_of(consumer)
  local ends = redis.call('ZSCORE', k_consumers, consumer)
  return ends and ends ~= '-inf' and tonumber(ends) or nil
end

-- A name is stored padded: one field of over 64 bytes makes a hash a table from the start, while a
-- short one would be searched from its front for each job.
local function padded(name)
  return string.format('%-65s', name)
end

local function consumer_name(consumer)
  local text = redis.call('HGET', k_consumer(consumer), '!name')
  return text and text:match('^(.-) *$')
end

local function jobs_held(consumer)
  local hash = k_consumer(consumer)
  local held = redis.call('HLEN', hash)
  for _, own in ipairs(redis.call('HMGET', hash, unpack(OWN))) do
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
