-- The doorbell. Any part of a script may ask for it; it is rung once, at the end.
-- 64 tokens are enough: the bell carries no work, and each claim that leaves work rings on.
local bell_wanted = false

local function wake()
  bell_wanted = true
end

local function ring_bell()
  if bell_wanted then
    redis.call('LPUSH', k_wake, '1')
    redis.call('LTRIM', k_wake, 0, 63)
  end
end
