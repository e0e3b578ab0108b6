-- exports: wake wake_timers note_due ring_bell
-- state: bell_wanted timers_late
-- The doorbell. Any part of a script may ask for it; it is rung once, at the end. Where its key is damaged
-- nobody hears it: beats find what waits.
-- 64 tokens are enough: the bell carries no work, and each claim that leaves work rings on.
local bell_wanted, timers_late = false, false -- only read elsewhere

local function wake()
  bell_wanted = true
end

-- The queue's next due time may have come nearer: sleepers are to set their timers anew.
local function wake_timers()
  timers_late = true
end

-- Likewise where something is to fall due at `time` (Unix ms), before all that stands in `key` by then.
local function note_due(key, time)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if not first or time < tonumber(first) then
    timers_late = true
  end
end

local function ring_bell()
  local tokens = (bell_wanted or timers_late) and redis.pcall('LPUSH', k_wake, '1')
  if type(tokens) == 'number' and tokens > 64 then
    redis.call('LTRIM', k_wake, 0, 63)
  end
end
