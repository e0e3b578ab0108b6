-- Brings back what has fallen due, at most `limit` of each kind: delayed jobs; blocks, pauses with
-- an end, lanes whose rate gives their next job. A job available for the first time gets its place now, in due order, then in
-- enqueue order; one that was available before returns to the place it had.
local function place_due(id, prefix, header, number)
  if prefix.available > 0 then
    return prefix.place
  end
  local place = number - (header.priority or 0) * PRIORITY_STEP
  redis.call('SETRANGE', k_job(id), 0, record_prefix(place, now, prefix.enqueued))
  return place
end

-- A record that cannot be read, or has gone, is kept among the dead rather than nowhere.
local function bury_unreadable(id)
  if redis.call('EXISTS', k_job(id)) == 0 then
    redis.call('SET', k_job(id), record_prefix(0, now, now) .. '{"task":"","lane":""}\n')
  end
  redis.call('ZADD', k_dead, now, id)
  redis.call('HSET', k_errors, id, cjson.encode({ error = 'its record is missing or cannot be read' }))
  count_total('buried', 1)
end

local function list_of(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

local function promote_jobs(members)
  local number = redis.call('INCRBY', k_seq, #members) - #members
  local leaving, entries = {}, {}
  for i, member in ipairs(members) do
    local id = member:sub(PLACE_WIDTH + 1)
    local prefix, header = read_head(id)
    if not header or not header.lane then
      bury_unreadable(id)
    else
      local lane = header.lane
      local score = string.format('%.0f', place_due(id, prefix, header, number + i))
      local delayed = list_of(leaving, lane)
      delayed[#delayed + 1] = member
      local key = is_ordered(lane) and '' or header.key
      if key then
        redis.call('ZADD', k_sequence(sequence_of(lane, key)), score, id)
        touch_sequence(lane, key)
      else
        local pending = list_of(entries, lane)
        pending[#pending + 1] = score
        pending[#pending + 1] = id
        touch_lane(lane)
      end
      count_waiting(lane, 1)
      count_total('waiting', 1)
    end
  end
  call_all('ZREM', k_scheduled, members)
  for lane, delayed in pairs(leaving) do
    call_all('ZREM', k_delayed(lane), delayed)
  end
  for lane, pending in pairs(entries) do
    call_all('ZADD', k_pending(lane), pending)
  end
end

local function end_block(member)
  local kind, name = member:sub(1, 2), member:sub(3)
  redis.call('ZREM', k_blocked, member)
  redis.call('HDEL', k_why, member)
  if kind == 'q:' then
    redis.call('HDEL', k_config, 'paused')
    wake()
  elseif kind == 'p:' then
    redis.call('SREM', k_paused, name)
    touch_lane(name)
  elseif kind == 'l:' or kind == 'r:' then
    touch_lane(name)
  else
    touch_sequence(split_sequence(name))
  end
end

-- Says whether more is due.
local function promote(limit)
  local jobs = redis.call('ZRANGEBYSCORE', k_scheduled, '-inf', now, 'LIMIT', 0, limit)
  if #jobs > 0 then
    promote_jobs(jobs)
  end
  local blocks = redis.call('ZRANGEBYSCORE', k_blocked, '-inf', now, 'LIMIT', 0, limit)
  for _, member in ipairs(blocks) do
    end_block(member)
  end
  return #jobs == limit or #blocks == limit
end
