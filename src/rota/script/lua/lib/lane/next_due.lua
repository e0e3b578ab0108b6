-- include: clock
-- exports: next_due
-- Milliseconds until the next thing falls due: a delayed job, the end of a block or pause, a
-- lease. 0: something is due already; -1: nothing is.
local function next_due()
  local soonest = math.huge
  for _, key in ipairs({ k_scheduled, k_blocked, k_consumers }) do
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first then
      soonest = math.min(soonest, tonumber(first))
    end
  end
  if soonest == math.huge then
    return -1
  end
  return math.max(0, soonest - now)
end
