-- include: blocked clock lists
-- exports: rate_credit rate_carried rate_after keep_out
-- Rates of lanes, by one number of state each (GCRA): the time at which what was taken so far has
-- used up what the rate gives. A lane without a job to its credit stays out of the ring with `r:` in
-- `blocked` until the next; what is late by less than the clock's grain, a millisecond, loses nothing.
-- Unix milliseconds fit into a double to 0.00024: differences of times are taken first, and what lies
-- as near as ROUNDING (ms) is the same.
local ROUNDING = 0.001

local function rate_start(rate, tat)
  tat = tonumber(tat or nil)
  if not tat or tat <= now - 1 then
    return now
  end
  -- Further ahead only after a template's rate was changed, or the clock set back.
  return math.min(tat, now + math.max(rate.burst * rate.interval, 1))
end

-- How many jobs may start now.
local function rate_credit(rate, tat)
  local spare = now - rate_start(rate, tat) + rate.tolerance + ROUNDING
  return math.max(0, math.floor(spare / rate.interval + 1))
end

-- Where a lane stands after a change of its rate: what was left to its credit still is, up to the new
-- burst. So changing it to and fro hands out nothing twice.
local function rate_carried(old, new, tat)
  local left = (now - rate_start(old, tat) + old.tolerance) / old.interval + 1
  return now + new.tolerance - (math.min(left, new.burst) - 1) * new.interval
end

local function rate_after(rate, tat, jobs)
  return rate_start(rate, tat) + jobs * rate.interval
end

-- Until its next job. A tat cut short stays so: else it would be as far ahead of any later time.
local function keep_out(lane, rate, tat)
  local start = rate_start(rate, tat)
  local due = now + math.ceil(start - now - rate.tolerance - ROUNDING)
  if start < tonumber(tat) then
    redis.call('ZADD', k_gtat, number_text(start), lane)
  end
  out_until('r:' .. lane, due)
end
