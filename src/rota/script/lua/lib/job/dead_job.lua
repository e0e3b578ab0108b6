-- include: blocked changes clock forget home record sequence_name
-- exports: holds_sequence free_sequence discard_dead prune_dead
-- A dead job may hold its sequence: the block names it, and ends with it whatever way it goes.
local function holds_sequence(id, header)
  local lane, key = home_of(header)
  return key and redis.call('HGET', k_why, 'h:' .. sequence_of(lane, key)) == id
end

local function free_sequence(id, header)
  if holds_sequence(id, header) then
    local lane, key = home_of(header)
    unblock('h:' .. sequence_of(lane, key))
    touch(lane, key)
  end
end

-- Says whether there was such a dead job.
local function discard_dead(id)
  if redis.call('ZREM', k_dead, id) == 0 then
    return false
  end
  local _, header = read_whole(id)
  if header then
    free_sequence(id, header)
  end
  forget({ id })
  count_total('discarded', 1)
  return true
end

-- Dead jobs are kept up to a number and an age. One that holds its sequence stays until someone
-- acts on it; such are passed over, and `dead_at` remembers how many.
local DEAD_MAX = 100000
local DEAD_AGE = 180 * 86400000

local function prune_dead(limit)
  local set = redis.call('HMGET', k_config, 'dead_max', 'dead_age', 'dead_at')
  local excess = redis.call('ZCARD', k_dead) - tonumber(set[1] or DEAD_MAX)
  local aged = redis.call('ZCOUNT', k_dead, '-inf', now - tonumber(set[2] or DEAD_AGE))
  local passed = tonumber(set[3] or 0)
  local many = math.max(excess, aged)
  if passed >= many then
    if set[3] then
      redis.call('HDEL', k_config, 'dead_at')
    end
    return false
  end
  local page = redis.call('ZRANGE', k_dead, passed, math.min(many, passed + limit) - 1)
  for _, id in ipairs(page) do
    local _, header = read_whole(id)
    if header and holds_sequence(id, header) then
      passed = passed + 1
    else
      discard_dead(id)
    end
  end
  redis.call('HSET', k_config, 'dead_at', passed)
  return #page == limit
end
