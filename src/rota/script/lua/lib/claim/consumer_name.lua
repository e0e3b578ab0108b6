-- exports: padded consumer_name
-- A consumer's name for people. It is stored padded: one field of over 64 bytes makes a hash a table
-- from the start, while a short one would be searched from its front for each job.
local function padded(name)
  return string.format('%-65s', name)
end

local function consumer_name(consumer)
  local text = redis.call('HGET', k_consumer(consumer), '!name')
  return text and text:match('^(.-) *$')
end
