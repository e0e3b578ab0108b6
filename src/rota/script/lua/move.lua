#!lua
-- include: attempt bell blocked changes holding limits lists record rewrite sequence_name
-- args: source target cursor limit
-- resend: receipt
-- Takes what waits and what is delayed in lane `source` over to lane `target`, at its places, about
-- `limit` jobs a call. Both lanes are ordered, or neither is.
-- A sequence that is held or blocked stays as a whole, delayed jobs of it too, and so does one for
-- which the target's backlog limit leaves no room, and what cannot be read. A free sequence of up to
-- 500 jobs goes in one call. A longer one goes head first; until its last job its rest is kept out by
-- a block without end, which names the target: whoever moves the lane there again goes on with it.
-- Of a lane whose keys are damaged nothing goes, and nothing into it; a broken sequence stays.
-- cursor: 'waiting -inf ' at first, then the one of the reply before.
-- Reply: cursor ('' at the end), moved, left (what waits and is delayed in `source` now)
local SHORT = 500
local reason = cjson.encode({ reason = 'moving to ' .. target })
local literal = literal_of(target)
local phase, after, token = cursor:match('^(%l+) (%S+) (.*)$') -- token: a sequence to go on with
for _, lane in ipairs({ source, target }) do
  for _, key in ipairs({ k_pending(lane), k_out(lane), k_delayed(lane) }) do
    redis.call('ZCARD', key) -- refuses the call before anything is written
  end
end
local room = backlogs_of({ target })[1]
  - count_of(k_gwaiting, target)
  - redis.call('ZCARD', k_delayed(target))
local used, moved = 0, 0

local function into_target(record)
  if name_in(record.header.lane) ~= source then
    return false
  end
  record.header.lane = literal
  return true
end

-- Moves jobs from one sorted set to another, where they are `names` with `scores`.
local function move_members(from, to, names, scores, done)
  local add, gone = {}, {}
  for i, name in ipairs(names) do
    if done[i] then
      add[#add + 1] = scores[i]
      add[#add + 1] = name
      gone[#gone + 1] = name
    end
  end
  call_all('ZADD', to, add)
  call_all('ZREM', from, gone)
end

local function count_moved(n)
  count_waiting(source, -n)
  count_waiting(target, n)
  moved = moved + n
end

-- ── sequences ───────────────────────────────────────────────────────────────────────────────

-- Moves jobs of the sequence's head; says how many, for some may not be readable.
local function move_jobs(key, ids, scores)
  local from, to = k_sequence(sequence_of(source, key)), k_sequence(sequence_of(target, key))
  local done, n = rewrite(ids, into_target)
  move_members(from, to, ids, scores, done)
  count_moved(n)
  used, room = used + #ids, room - n
  touch(source, key)
  touch(target, key)
  return n
end

local function is_begun(block)
  return redis.call('ZSCORE', k_blocked, block) == 'inf' and redis.call('HGET', k_why, block) == reason
end

local function is_broken(sequence)
  return not attempt('ZCARD', k_sequence(sequence))
end

-- Says whether the sequence is to be gone on with.
local function move_sequence(key)
  local sequence = sequence_of(source, key)
  if is_broken(sequence) or is_broken(sequence_of(target, key)) then
    return false
  end
  local line, block = k_sequence(sequence), 's:' .. sequence
  if not is_begun(block) then
    local size = redis.call('ZCARD', line)
    if shut_by(sequence) or size > room then
      return false
    end
    local ids, scores = split_pairs(redis.call('ZRANGE', line, 0, SHORT, 'WITHSCORES'))
    if size <= SHORT and #cut_to_bytes(ids) == #ids then
      move_jobs(key, ids, scores)
      return false
    end
    redis.call('ZADD', k_blocked, '+inf', block)
    redis.call('HSET', k_why, block, reason)
  end
  local ids, scores = split_pairs(redis.call('ZRANGE', line, 0, limit - 1, 'WITHSCORES'))
  ids = cut_to_bytes(ids)
  local n = move_jobs(key, ids, scores)
  if n > 0 and redis.call('ZCARD', line) > #ids - n then
    return true
  end
  unblock(block)
  return false
end

-- ── phases: each says whether there is more of it ───────────────────────────────────────────

local phases = {}

-- Unordered jobs, and sequences that may be claimed.
function phases.waiting()
  local rows = redis.call('ZRANGEBYSCORE', k_pending(source), after, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  local ids, scores, more = {}, {}, #rows == 2 * limit
  for i = 1, #rows, 2 do
    local entry, score = rows[i], rows[i + 1]
    local key = key_in(entry)
    if room < 1 then
      more = false
      break
    elseif used >= limit or not (key or affords_bytes(entry)) then
      more = true
      break
    end
    after = '(' .. score
    if not key then
      ids[#ids + 1], scores[#scores + 1] = entry, score
      used, room = used + 1, room - 1
    elseif move_sequence(key) then
      token, more = entry, true
      break
    end
  end
  local done, n = rewrite(ids, into_target)
  move_members(k_pending(source), k_pending(target), ids, scores, done)
  count_moved(n)
  touch(source)
  touch(target)
  return more
end

-- Of the sequences that may not be claimed, those whose move was interrupted.
function phases.out()
  local rows = redis.call('ZRANGEBYSCORE', k_out(source), after, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #rows, 2 do
    if used >= limit then
      return true
    end
    after = '(' .. rows[i + 1]
    if is_begun('s:' .. sequence_of(source, rows[i])) and move_sequence(rows[i]) then
      token = '!' .. rows[i]
      return true
    end
  end
  return #rows == 2 * limit
end

-- A delayed job stays with its sequence.
local function delayed_into_target(record)
  local key = is_ordered(source) and '' or (record.header.key and name_in(record.header.key))
  if room < 1 then
    return false
  elseif key then
    local sequence = sequence_of(source, key)
    if redis.call('EXISTS', k_sequence(sequence)) == 1 or shut_by(sequence) then
      return false
    end
  end
  if into_target(record) then
    room = room - 1
    return true
  end
  return false
end

-- From the last due on, so that what falls due meanwhile does not shift the others; `after` counts
-- those that stay.
function phases.delayed()
  local first = tonumber(after)
  local rows = redis.call('ZREVRANGE', k_delayed(source), first, first + limit - 1, 'WITHSCORES')
  local members, dues = split_pairs(rows)
  local ids = {}
  for i, member in ipairs(members) do
    ids[i] = member:sub(PLACE_WIDTH + 1)
  end
  ids = cut_to_bytes(ids)
  local done, n = rewrite(ids, delayed_into_target)
  move_members(k_delayed(source), k_delayed(target), members, dues, done)
  moved, used = moved + n, used + #ids
  after = string.format('%.0f', first + #ids - n)
  return room >= 1 and (#ids < #members or #members == limit)
end

local NEXT = { waiting = 'out', out = 'delayed' }
local START = { out = '-inf', delayed = '0' }
if token ~= '' and not move_sequence(key_in(token)) then
  token = ''
end
for _ = 1, 4 do -- pages of which nothing goes must end the call too
  if phase and token == '' and used < limit and bytes_used < REWRITE_BYTES and not phases[phase]() then
    phase = NEXT[phase]
    after = START[phase]
  end
end
count_total('moved', moved)
write_changes()
ring_bell()
local left = count_of(k_gwaiting, source) + redis.call('ZCARD', k_delayed(source))
return { phase and phase .. ' ' .. after .. ' ' .. token or '', moved, left }
