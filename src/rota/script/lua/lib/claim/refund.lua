-- include: changes limits lists rate
-- exports: refund_rate
-- Gives back what was taken and never started; a lane that waits for its next job may go on sooner.
local function refund_rate(lane, jobs)
  local rate = jobs > 0 and rates_of({ lane })[1]
  local tat = rate and redis.call('ZSCORE', k_gtat, lane)
  if tat then
    redis.call('ZADD', k_gtat, number_text(rate_after(rate, tat, -jobs)), lane)
    redis.call('ZREM', k_blocked, 'r:' .. lane)
    touch(lane)
  end
end
