-- exports: LATER note_broken attempt take_broken
-- Calls on what belongs to one lane, sequence or job. Where its key is damaged it is left out and counted, in
-- total `broken`, so that it harms no other.
local LATER = 60000 -- ms: what a broken lane cannot take stays among the delayed for so long
local broken = 0

local function note_broken()
  broken = broken + 1
end

-- The reply; nil where the key is damaged.
local function attempt(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    broken = broken + 1
    return nil
  end
  return reply
end

-- What has been counted since it was last asked for.
local function take_broken()
  local count = broken
  broken = 0
  return count
end
