-- include: audit_places bury changes delivery findings fingerprint holding record sequence_name
-- exports: forget_hands hand_judges
-- Judges of what is in flight: consumers' hashes, `held`, permits.
local HELD_MAX = 10000

-- The consumers, or nil where they hold too much to look at in one script.
local function few_consumers()
  local consumers = redis.call('ZRANGE', k_consumers, 0, CONSUMERS_MAX)
  local held = 0
  for _, consumer in ipairs(consumers) do
    held = held + redis.call('HLEN', k_consumer(consumer))
  end
  if #consumers > CONSUMERS_MAX or held > HELD_MAX then
    note('held')
    return nil
  end
  add_work(#consumers / 5)
  return consumers
end

-- Every delivery by consumer, or nil.
local hands
local function all_hands()
  local consumers = not hands and few_consumers()
  if not consumers then
    return hands
  end
  hands = {}
  for _, consumer in ipairs(consumers) do
    local ids, texts = jobs_among(redis.call('HGETALL', k_consumer(consumer)))
    hands[#hands + 1] = { consumer = consumer, ids = ids, texts = texts }
  end
  return hands
end

-- The jobs of one sequence in each consumer's hands.
local function holders_of(sequence)
  local found = {}
  for _, hand in ipairs(all_hands() or {}) do
    local jobs = {}
    for i, text in ipairs(hand.texts) do
      local held = text:sub(-#sequence) == sequence and read_delivery(text)
      if held and held.sequence == sequence then
        jobs[#jobs + 1] = { hand.ids[i], tonumber(held.score) }
      end
    end
    if #jobs > 0 then
      table.sort(jobs, function(a, b)
        return a[2] < b[2]
      end)
      found[#found + 1] = { consumer = hand.consumer, jobs = jobs }
    end
  end
  return found
end

-- Writes `held` anew from the consumers' hashes. Of two consumers with jobs of one sequence the one
-- that `held` names keeps its own; the others' go back to their places.
local function rebuild_holding(sequence)
  local lane, key = split_sequence(sequence)
  local holding, owners = read_holding(sequence), holders_of(sequence)
  local owner = owners[1]
  for _, other in ipairs(owners) do
    if holding and other.consumer == holding.consumer then
      owner = other
    end
  end
  local ids, kept = {}, {}
  for i, job in ipairs(owner and owner.jobs or {}) do
    ids[i] = job[1]
    kept[job[1]] = true
  end
  for _, other in ipairs(owners) do
    for _, job in ipairs(other ~= owner and other.jobs or {}) do
      if not kept[job[1]] then
        redis.call('ZADD', k_sequence(sequence), job[2], job[1])
        count_waiting(lane, 1)
        count_total('waiting', 1)
      end
      redis.call('HDEL', k_consumer(other.consumer), job[1])
      count_total('running', -1)
    end
  end
  write_holding(sequence, owner and owner.consumer, ids)
  touch(lane, key)
  return true
end

local function report_holding(sequence, what)
  report('held', sequence, what, function()
    return all_hands() ~= nil and rebuild_holding(sequence)
  end)
end

-- Fields of a consumer's own. A hash with more than these is never taken for empty by a reap.
local own_fields = { ['!claim'] = is_count, ['!lease'] = is_count, ['!name'] = is_text, ['!spared'] = is_text }

local function judge_hand(consumer, id, text)
  if is_own(id) then
    if not (own_fields[id] and own_fields[id](text)) then
      report_field('leftover', consumer, 'has a field of no use: ' .. id, k_consumer(consumer), id)
    end
    return
  end
  local held = read_delivery(text)
  if not held then
    report_field('held', id, 'is held in words that cannot be read', k_consumer(consumer), id)
    return
  end
  note(id .. '\n' .. held.home)
  local prefix, header = read_whole(id)
  if not prefix then
    report('record', id, 'is running, and its record is gone or cannot be read', function()
      keep_as_dead(id)
      count_total('buried', -1) -- counted by bury
      bury(consumer, id, held, cjson.encode({ error = 'its record was missing or could not be read' }), false)
    end)
    return
  end
  judge_other_places(id, prefix, header, 'running')
  if tonumber(held.score) ~= prefix.place then
    local what = 'would return to ' .. held.score .. ', its record says ' .. place_text(prefix.place)
    report('place', id, what, function()
      local score = string.format('%.0f', prefix.place)
      redis.call('HSET', k_consumer(consumer), id, delivery_text(held.delivery, score, held.mark, held.home))
    end)
  end
  if held.sequence then
    local holding, listed = read_holding(held.sequence), false
    for _, job in ipairs(holding and holding.consumer == consumer and holding.jobs or {}) do
      listed = listed or job == id
    end
    if not listed then
      report_holding(held.sequence, 'has job ' .. id .. ' in flight, and held does not say so')
    end
  end
end

local function judge_held(_, sequence, text)
  local length = sequence:match('^(%d+):')
  local holding = read_holding(sequence)
  if not length or tonumber(length) + #length + 2 > #sequence or not holding.consumer or #holding.jobs == 0 then
    report_field('held', sequence, 'is held in words that cannot be read: ' .. text, k_held, sequence)
    return
  end
  for _, id in ipairs(holding.jobs) do
    local held = read_delivery(redis.call('HGET', k_consumer(holding.consumer), id) or '')
    if not held or held.sequence ~= sequence then
      report_holding(sequence, 'is held for job ' .. id .. ', which consumer ' .. holding.consumer .. ' does not hold')
      return
    end
  end
end

-- Permits of all lanes: an unordered job in flight has one, a held sequence one.
local permits
local function count_permits_of_all()
  local counted = {}
  permits = {}
  for _, consumer in ipairs(few_consumers()) do
    for _, text in ipairs(redis.call('HVALS', k_consumer(consumer))) do
      local held = read_delivery(text)
      if held and not (held.sequence and counted[held.sequence]) then
        permits[held.lane] = (permits[held.lane] or 0) + 1
        counted[held.sequence or ''] = true
      end
    end
  end
end

-- `text`: '<fingerprint>\n<permits>\n<lane>' summed up in pages, or without the first two to count
-- them here.
local function judge_permits(text)
  local print, count, lane = text:match('^([^\n]*)\n(%d*)\n(.*)$')
  if print ~= '' and print ~= fingerprint() then
    note('moved')
    return
  elseif print == '' and not permits then
    if not few_consumers() then
      return
    end
    count_permits_of_all()
  end
  local n = print == '' and (permits[lane] or 0) or tonumber(count)
  local says = redis.call('HGET', k_gactive, lane)
  if says ~= (n > 0 and string.format('%d', n)) then
    report('permits', lane, n .. ' of its entries are in flight, gactive says ' .. (says or 'none'), function()
      if n > 0 then
        redis.call('HSET', k_gactive, lane, string.format('%d', n))
      else
        redis.call('HDEL', k_gactive, lane)
      end
      touch(lane)
    end)
  end
end

-- An unordered job that two consumers hold: the lease that ends last keeps it.
local function judge_twice(id)
  local consumers = redis.call('ZREVRANGE', k_consumers, 0, CONSUMERS_MAX - 1)
  local first
  for _, consumer in ipairs(consumers) do
    local held = read_delivery(redis.call('HGET', k_consumer(consumer), id) or '')
    if held and not held.sequence then
      if first then
        report_field('place', id, 'is in the hands of two consumers', k_consumer(consumer), id)
      end
      first = first or consumer
    end
  end
  add_work(#consumers / 5)
end

-- A lease without a hash, and a hash without a lease, whose jobs nobody would take back.
local function judge_consumers(_, consumer)
  note(consumer)
  if redis.call('EXISTS', k_consumer(consumer)) == 0 then
    report('lease', consumer, 'is a lease, and what it holds is gone', function()
      redis.call('ZREM', k_consumers, consumer)
    end)
  end
end

local function judge_lease(consumer)
  if redis.call('EXISTS', k_consumer(consumer)) == 1 and not redis.call('ZSCORE', k_consumers, consumer) then
    report('lease', consumer, 'holds jobs without a lease', function()
      redis.call('ZADD', k_consumers, '-inf', consumer)
      redis.call('HSET', k_consumer(consumer), '!spared', 1)
    end)
  end
end

local function forget_hands()
  hands, permits = nil, nil
end

local hand_judges = {
  hand = judge_hand,
  held = judge_held,
  permits = judge_permits,
  twice = judge_twice,
  consumers = judge_consumers,
  lease = judge_lease,
}
