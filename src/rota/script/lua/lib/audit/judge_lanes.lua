-- include: audit_places changes consumer findings fingerprint limits lists sequence_name
-- exports: lane_judges
-- Judges of lanes: whether they stand in the ring as they should, and whether the counts are right.
local LANE_MAX, SEQUENCES_MAX = 5000, 2000
local LANES_MAX = 10000

-- Why a lane may not be served; nil: it may. While a change of limits is on its way, what they say
-- holds only for lanes it has reached, which nobody can tell.
local function reason_outside(lane, sweeping)
  if redis.call('EXISTS', k_pending(lane)) == 0 then
    return 'nothing of it is pending'
  elseif redis.call('SISMEMBER', k_paused, lane) == 1 then
    return 'it is paused'
  elseif redis.call('ZSCORE', k_blocked, 'l:' .. lane) then
    return 'it is blocked'
  elseif sweeping then
    return 'unknown'
  elseif redis.call('ZSCORE', k_blocked, 'r:' .. lane) then
    return 'it is out of rate'
  end
  local readable, ceilings = pcall(ceilings_of, { lane })
  if not readable then -- its template: a finding of its own
    return 'unknown'
  end
  local permits, ceiling = count_of(k_gactive, lane), ceilings[1]
  if permits >= ceiling then
    return string.format('%d of its %d permits are taken', permits, ceiling)
  end
  return nil
end

local function judge_membership(lane)
  local tag = redis.call('ZSCORE', k_ring, lane)
  local outside = reason_outside(lane, redis.call('HEXISTS', k_config, 'sweep') == 1)
  if outside ~= 'unknown' and (not tag) ~= (outside ~= nil) then
    local what = tag and 'stands in the ring, though ' .. outside or 'is not in the ring, though it may be served'
    report('ring', lane, what, function()
      touch(lane)
    end)
  end
  local vt = redis.call('GET', k_vt) or '0'
  if tag and tonumber(tag) < (tonumber(vt) or 0) then
    report('ring', lane, 'stands at ' .. tag .. ', behind the rotation at ' .. vt, function()
      local behind = redis.call('ZCOUNT', k_ring, '-inf', '(' .. vt)
      if behind == redis.call('ZCARD', k_ring) then -- then it is the rotation that is wrong
        redis.call('SET', k_vt, redis.call('ZRANGE', k_ring, 0, 0, 'WITHSCORES')[2])
      else
        redis.call('ZADD', k_ring, 'XX', vt, lane)
      end
    end)
  end
end

-- Whether a lane has exactly so many jobs waiting by `gwaiting`.
local function judge_waiting(lane, count)
  local stated = redis.call('HGET', k_gwaiting, lane)
  if stated ~= (count > 0 and string.format('%d', count)) then
    report('count', lane, count .. ' jobs of it wait, gwaiting says ' .. (stated or 'none'), function()
      if count > 0 then
        redis.call('HSET', k_gwaiting, lane, string.format('%d', count))
      else
        redis.call('HDEL', k_gwaiting, lane)
      end
    end)
  end
end

local function waiting_in(sequences)
  local count = 0
  for sequence in pairs(sequences) do
    count = count + redis.call('ZCARD', k_sequence(sequence))
  end
  return count
end

-- `text`: the lane, then keys of its sequences that neither `pending` nor `out` names.
local function judge_lane(text)
  local lane, rest = text:match('^([^\n]*)(.*)$')
  judge_membership(lane)
  local entries = redis.call('ZCARD', k_pending(lane)) + redis.call('ZCARD', k_out(lane))
  if entries > LANE_MAX then
    note_large(lane)
    return
  end
  add_work(entries / 10)
  local count, sequences, many = 0, {}, redis.call('ZCARD', k_out(lane))
  for _, entry in ipairs(redis.call('ZRANGE', k_pending(lane), 0, -1)) do
    local key = key_in(entry)
    if key then
      sequences[sequence_of(lane, key)] = true
      many = many + 1
    else
      count = count + 1
    end
  end
  if many > SEQUENCES_MAX then
    note_large(lane)
    return
  end
  for _, key in ipairs(redis.call('ZRANGE', k_out(lane), 0, -1)) do
    sequences[sequence_of(lane, key)] = true
  end
  for key in rest:gmatch('\n([^\n]*)') do
    sequences[sequence_of(lane, key)] = true
  end
  judge_waiting(lane, count + waiting_in(sequences))
end

-- `text`: '<fingerprint>\n<count>\n<lane>', recounted in pages; believed if nothing moved meanwhile.
local function judge_count(text)
  local print, count, lane = text:match('^([^\n]*)\n(%d+)\n(.*)$')
  if print ~= fingerprint() then
    note('moved')
    return
  end
  judge_waiting(lane, tonumber(count))
end

local function sum(key)
  local total = 0
  for _, value in ipairs(redis.call('HVALS', key)) do
    total = total + (tonumber(value) or 0)
  end
  return total
end

local function running_now()
  local running = 0
  for _, consumer in ipairs(redis.call('ZRANGE', k_consumers, 0, -1)) do
    running = running + jobs_held(consumer)
  end
  return running
end

local function judge_total(name, is)
  local stated = tonumber(redis.call('HGET', k_stats, name) or 0)
  if stated ~= is then
    report('count', name, string.format('is %d, stats say %s', is, tostring(stated)), function()
      redis.call('HSET', k_stats, name, string.format('%d', is))
    end)
  end
end

-- What came in less what went is what there is. Lost jobs count as discarded.
local function judge_balance(stored)
  local balance = count_of(k_stats, 'enqueued')
  for _, name in ipairs({ 'completed', 'discarded', 'purged', 'cancelled' }) do
    balance = balance - count_of(k_stats, name)
  end
  if balance ~= stored then
    local what = string.format('less what went is %d, and there are %d jobs', balance, stored)
    report('count', 'enqueued', what, function()
      redis.call('HINCRBY', k_stats, balance > stored and 'discarded' or 'enqueued', math.abs(balance - stored))
    end)
  end
end

-- `text`: '' to sum up here, or '<fingerprint>\n<waiting>\n<permits>' summed up in pages.
local function judge_totals(text)
  local print, waiting, permits = text:match('^([^\n]*)\n(%d+)\n(%d+)$')
  if print and print ~= fingerprint() then
    note('moved')
    return
  elseif not print then
    if redis.call('HLEN', k_gwaiting) > LANES_MAX or redis.call('HLEN', k_gactive) > LANES_MAX then
      note('lanes')
      return
    end
    waiting, permits = sum(k_gwaiting), sum(k_gactive)
  end
  if redis.call('ZCARD', k_consumers) > CONSUMERS_MAX then
    note('consumers')
    return
  end
  local running = running_now()
  judge_total('waiting', tonumber(waiting))
  judge_total('permits', tonumber(permits))
  judge_total('running', running)
  judge_balance(waiting + running + redis.call('ZCARD', k_scheduled) + redis.call('ZCARD', k_dead))
end

local lane_judges = { lane = judge_lane, count = judge_count, totals = judge_totals }
