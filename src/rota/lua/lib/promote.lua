-- Brings back what has fallen due, at most `limit` of each kind: delayed jobs, blocks, pauses
-- with an end. A job available for the first time gets its place now, in due order, then in
-- enqueue order; one that was available before returns to the place it had.
local function first_place(id, header, prefix)
  local place = redis.call('INCR', k_seq) - (header.priority or 0) * PRIORITY_STEP
  redis.call('SETRANGE', k_job(id), 0, record_prefix(place, now, prefix.enqueued))
  return place
end

local function promote_job(member)
  local id = member:sub(PLACE_WIDTH + 1)
  redis.call('ZREM', k_scheduled, member)
  local prefix, header = read_prefix(id), read_header(id)
  if not prefix or not header then
    count_total('missing', 1)
    return
  end
  local lane = header.lane
  redis.call('ZREM', k_delayed(lane), member)
  local place = prefix.available == 0 and first_place(id, header, prefix) or prefix.place
  local score = string.format('%.0f', place)
  count_waiting(lane, 1)
  count_total('waiting', 1)
  local key = is_ordered(lane) and '' or header.key
  if key then
    redis.call('ZADD', k_sequence(sequence_of(lane, key)), score, id)
    touch_sequence(lane, key)
  else
    redis.call('ZADD', k_pending(lane), score, id)
    touch_lane(lane)
  end
end

local function end_block(member)
  local kind, name = member:sub(1, 2), member:sub(3)
  redis.call('ZREM', k_blocked, member)
  redis.call('HDEL', k_why, member)
  if kind == 'p:' then
    redis.call('SREM', k_paused, name)
    touch_lane(name)
  elseif kind == 'l:' then
    touch_lane(name)
  else
    touch_sequence(split_sequence(name))
  end
end

local function promote(limit)
  local jobs = redis.call('ZRANGEBYSCORE', k_scheduled, '-inf', now, 'LIMIT', 0, limit)
  for _, member in ipairs(jobs) do
    promote_job(member)
  end
  local blocks = redis.call('ZRANGEBYSCORE', k_blocked, '-inf', now, 'LIMIT', 0, limit)
  for _, member in ipairs(blocks) do
    end_block(member)
  end
  return #jobs == limit or #blocks == limit
end
