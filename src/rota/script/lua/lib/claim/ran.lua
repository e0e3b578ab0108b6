-- include: charge figures limits lists turn
-- exports: charge_time
-- A job charged by time has run for so many seconds: its lane pays the rest, or gets back what was
-- too much, though never a place before the rotation's; the task's next jobs are charged the mean.
local SHORTEST = 0.001

local function move_tag(key, lane, by)
  local tag = redis.call('ZSCORE', key, lane)
  if tag then
    redis.call('ZADD', key, number_text(math.max(rotation(), tonumber(tag) + by)), lane)
  end
  return tag
end

local function charge_time(lane, id, seconds)
  local text = redis.call('HGET', k_costs, id)
  local charged, task = (text or ''):match(BY_TIME)
  charged = tonumber(charged)
  if not charged then
    return
  end
  seconds = math.max(seconds, SHORTEST)
  local rest = seconds - charged
  add_figures({ '', lane }, { 0, 0 }, { 0, 0 }, { rest, rest })
  local by = rest / weight_of(lane)
  if not (move_tag(k_ring, lane, by) or move_tag(k_owed, lane, by)) and by > 0 then
    redis.call('ZADD', k_owed, number_text(rotation() + by), lane)
  end
  local mean = tonumber(redis.call('HGET', k_durations, task) or nil) or seconds
  redis.call('HSET', k_durations, task, number_text(mean + (seconds - mean) / 8))
end
