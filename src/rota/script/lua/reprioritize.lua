#!lua flags=allow-oom
-- include: bell changes lists record rewrite sequence_name
-- args: lane priority cursor limit
-- resend: receipt
-- Gives what waits and what is delayed in a lane this priority, about `limit` jobs a call. Jobs of one
-- priority keep their order, between the calls too: those of a higher one come down last first,
-- those of a lower one go up first first. Of a held sequence the waiting jobs are changed.
-- cursor: 'delayed 0' at first, then the one of the reply before. Jobs that come back, or sequences
-- that go and come, may be missed: a sweep that changes nothing has seen all.
-- Reply: cursor ('' at the end), changed
local low = -priority * PRIORITY_STEP -- places of this priority lie between low and high
local high = low + PRIORITY_STEP
local own = priority ~= 0 and string.format('%.0f', priority) or nil
local phase, after = cursor:match('^(%l+) (%S+)$')
local changed, budget = 0, limit

local function text_of(place)
  return string.format('%.0f', place)
end

local function new_place(place)
  return low + place - math.floor(place / PRIORITY_STEP) * PRIORITY_STEP
end

-- Gives the record this priority and, unless `place` is nil, that place: says whether either is new.
local function set_priority(record, place)
  local prefix = place and place_text(place) .. record.prefix:sub(PLACE_WIDTH + 1) or record.prefix
  if record.header.priority == own and record.prefix == prefix then
    return false
  end
  record.header.priority, record.prefix = own, prefix
  return true
end

-- ids and scores of one sorted set: says how many changed.
local function change_waiting(key, ids, scores)
  local places, rows = {}, {}
  for i, score in ipairs(scores) do
    places[i] = new_place(tonumber(score))
  end
  local done, n = rewrite(ids, function(record, i)
    return set_priority(record, places[i])
  end)
  for i in pairs(done) do
    rows[#rows + 1] = text_of(places[i])
    rows[#rows + 1] = ids[i]
  end
  call_all('ZADD', key, rows)
  changed, budget = changed + n, budget - n
  return n
end

-- One page of those that are to come down, or go up, from the ones nearest to their new places on.
local function page_of(key, down, from, most)
  if down then
    return redis.call('ZREVRANGEBYSCORE', key, from, '-inf', 'WITHSCORES', 'LIMIT', 0, most)
  end
  return redis.call('ZRANGEBYSCORE', key, from, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
end

-- Says whether more of the sequence is to be changed.
local function change_sequence(key)
  local line, more = k_sequence(sequence_of(lane, key)), false
  for _, down in ipairs({ true, false }) do
    local rows = budget > 0 and page_of(line, down, text_of(down and low or high), limit) or {}
    local ids, scores = split_pairs(rows)
    local kept = cut_to_bytes(ids)
    for i = #kept + 1, #ids do
      scores[i] = nil
    end
    if #kept > 0 and change_waiting(line, kept, scores) > 0 then
      touch(lane, key)
      more = more or #rows == 2 * limit or #kept < #ids
    end
  end
  return more or budget <= 0
end

-- ── phases: each says whether there is more of it ───────────────────────────────────────────

local phases = {}

-- A job that was never available has no place yet, only a number: its header says its priority.
-- From the last due on, so that what falls due meanwhile does not shift the others.
function phases.delayed()
  local first = tonumber(after)
  local rows = redis.call('ZREVRANGE', k_delayed(lane), first, first + limit - 1, 'WITHSCORES')
  local ids, add, gone = {}, {}, {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = rows[i]:sub(PLACE_WIDTH + 1)
  end
  ids = cut_to_bytes(ids)
  local _, n = rewrite(ids, function(record, i)
    local known = record.at.available > 0
    local is_new = set_priority(record, known and new_place(record.at.place) or nil)
    local member = record.prefix:sub(1, PLACE_WIDTH) .. ids[i]
    if is_new and member ~= rows[2 * i - 1] then
      add[#add + 1] = rows[2 * i]
      add[#add + 1] = member
      gone[#gone + 1] = rows[2 * i - 1]
    end
    return is_new
  end)
  for _, key in ipairs({ k_scheduled, k_delayed(lane) }) do
    call_all('ZADD', key, add)
    call_all('ZREM', key, gone)
  end
  changed, budget = changed + n, budget - #ids
  after = text_of(first + #ids)
  return 2 * #ids < #rows or #rows == 2 * limit
end

-- The keys of sequences by their heads' places, whether they may be claimed or not, so that one
-- which changes sides in between is not missed; and how far this page goes, nil to the end.
local function sequences_from(from)
  local bound, found, keys = nil, {}, {}
  for _, key in ipairs({ k_pending(lane), k_out(lane) }) do
    local rows = page_of(key, false, from, 2 * limit)
    if #rows == 4 * limit then
      bound = math.min(bound or math.huge, tonumber(rows[#rows]))
    end
    for i = 1, #rows, 2 do
      local name = key == k_out(lane) and rows[i] or key_in(rows[i])
      if name then
        found[#found + 1] = { name, tonumber(rows[i + 1]) }
      end
    end
  end
  for _, row in ipairs(found) do
    if not bound or row[2] <= bound then
      keys[#keys + 1] = row[1]
    end
  end
  return keys, bound
end

function phases.sequences()
  local keys, bound = sequences_from(after)
  for _, key in ipairs(keys) do
    if change_sequence(key) then
      return true -- the page is looked at again: what is changed in it is passed over
    end
  end
  after = bound and '(' .. text_of(bound)
  return bound ~= nil
end

local function change_unordered(down)
  local rows = page_of(k_pending(lane), down, after, limit)
  local ids, scores, more = {}, {}, #rows == 2 * limit
  for i = 1, #rows, 2 do
    local is_job = not key_in(rows[i])
    if is_job and (#ids >= budget or not affords_bytes(rows[i])) then
      more = true
      break
    elseif is_job then
      ids[#ids + 1] = rows[i]
      scores[#scores + 1] = rows[i + 1]
    end
    after = '(' .. rows[i + 1]
  end
  change_waiting(k_pending(lane), ids, scores)
  return more
end

function phases.lower()
  return change_unordered(true)
end

function phases.raise()
  return change_unordered(false)
end

local NEXT = { delayed = 'sequences', sequences = 'lower', lower = 'raise' }
local START = { sequences = '-inf', lower = text_of(low), raise = text_of(high) }
for _ = 1, 4 do -- pages of which nothing changes must end the call too
  if phase and budget > 0 and bytes_used < REWRITE_BYTES and not phases[phase]() then
    phase = NEXT[phase]
    after = START[phase]
  end
end
write_changes()
ring_bell()
return { phase and phase .. ' ' .. after or '', changed }
