-- include: attempt bell blocked changes clock home lists record sequence_name
-- exports: promote_jobs find_due promote
-- Brings back what has fallen due, at most `limit` of each kind: delayed jobs; blocks, pauses with
-- an end, lanes whose rate gives their next job. A job available for the first time gets its place now,
-- in due order, then in enqueue order; one that was available before returns to the place it had.
local function place_due(prefix, header, number)
  if prefix.available > 0 then
    return prefix.place
  end
  return number - (tonumber(header.priority or 0) or 0) * PRIORITY_STEP
end

-- A record that cannot be read, or has gone, is kept among the dead rather than nowhere.
local function bury_unreadable(id)
  if redis.call('EXISTS', k_job(id)) == 0 then
    write_stand_in(id, 0, '', nil, '')
  end
  redis.call('ZADD', k_dead, now, id)
  redis.call('HSET', k_errors, id, cjson.encode({ error = 'its record is missing or cannot be read' }))
  count_total('buried', 1)
end

-- Jobs that fell due and have one home, a lane's `pending` or a sequence: what goes into it, and per
-- job its id, its member of `scheduled`, its new prefix, nil where it keeps the old one.
local function add_due(groups, id, member, prefix, header, place)
  local lane, key = home_of(header)
  local home = waits_in(lane, key)
  local group = groups[home]
  if not group then
    group = { home = home, lane = lane, key = key, entries = {}, ids = {}, members = {}, prefixes = {} }
    groups[home] = group
    groups[#groups + 1] = group
  end
  local n = #group.ids + 1
  group.ids[n], group.members[n] = id, member
  group.entries[2 * n - 1], group.entries[2 * n] = place, id
  if prefix.available == 0 then
    group.prefixes[n] = record_prefix(place, now, prefix.enqueued)
  end
end

-- They fall due again a little later: their lane or sequence is broken.
local function put_off(group)
  for _, member in ipairs(group.members) do
    redis.call('ZADD', k_scheduled, now + LATER, member)
    attempt('ZADD', k_delayed(group.lane), 'XX', now + LATER, member)
  end
end

local function bring_in(group)
  if not attempt('ZADD', group.home, unpack(group.entries)) then
    put_off(group)
    return
  end
  for i, id in ipairs(group.ids) do
    if group.prefixes[i] then
      redis.call('SETRANGE', k_job(id), 0, group.prefixes[i])
    end
  end
  attempt('ZREM', k_delayed(group.lane), unpack(group.members))
  touch(group.lane, group.key)
  count_waiting(group.lane, #group.ids)
  count_total('waiting', #group.ids)
end

-- members: 100 at the most.
local function promote_jobs(members)
  local number = redis.call('INCRBY', k_seq, #members) - #members
  local groups = {}
  for i, member in ipairs(members) do
    local id = member:sub(PLACE_WIDTH + 1)
    local prefix, header = read_whole(id)
    if prefix then
      add_due(groups, id, member, prefix, header, place_due(prefix, header, number + i))
    else
      bury_unreadable(id)
    end
  end
  call_all('ZREM', k_scheduled, members)
  for _, group in ipairs(groups) do
    bring_in(group)
  end
end

local function end_block(member)
  local kind, name = member:sub(1, 2), member:sub(3)
  unblock(member)
  if kind == 'q:' then
    redis.call('HDEL', k_config, 'paused')
    wake()
  elseif kind == 'p:' then
    redis.call('SREM', k_paused, name)
    touch(name)
  elseif kind == 'l:' or kind == 'r:' then
    touch(name)
  elseif split_sequence(name) then
    touch(split_sequence(name))
  end
end

-- What is due: jobs and blocks. Asked for before the first write.
local function find_due(limit)
  local jobs = redis.call('ZRANGEBYSCORE', k_scheduled, '-inf', now, 'LIMIT', 0, limit)
  local blocks = redis.call('ZRANGEBYSCORE', k_blocked, '-inf', now, 'LIMIT', 0, limit)
  if #jobs > 0 or #blocks > 0 then
    -- check: seq dead errors why paused
  end
  return jobs, blocks
end

local function promote(jobs, blocks)
  if #jobs > 0 then
    promote_jobs(jobs)
  end
  for _, member in ipairs(blocks) do
    end_block(member)
  end
end
