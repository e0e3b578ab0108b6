-- include: blocked changes forget home record sequence_name
-- exports: holds_sequence free_sequence discard_dead
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
