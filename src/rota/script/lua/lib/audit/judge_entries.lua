-- include: audit_places changes findings give_back holding home record sequence_name
-- exports: entry_judges
-- Judges of what waits: a lane's entries, sequences, delayed and dead jobs, and records.

-- A job that stands in `pending` of a lane (`key` nil) or in a sequence.
local function judge_entry(id, score, lane, key)
  if id == '' then
    report('place', 'a job without an id', 'waits in lane ' .. lane, function()
      take_out(id, lane, key)
    end)
    return
  end
  local prefix, header = read_whole(id)
  if not prefix then
    local state = redis.call('EXISTS', k_job(id)) == 0 and 'is gone' or 'cannot be read'
    report('record', id, 'waits, and its record ' .. state, function()
      take_out(id, lane, key)
      keep_as_dead(id)
    end)
    return
  end
  local home, home_key = home_of(header)
  if home ~= lane or home_key ~= key then
    report('place', id, 'stands in lane ' .. lane .. ' and belongs to lane ' .. home, function()
      take_out(id, lane, key)
      if not is_claimable(id, header) and not is_dead(id) and not is_scheduled(id, prefix) and is_held(id) == false then
        put_home(id, prefix, header)
        count_waiting(home, 1)
        count_total('waiting', 1)
      end
    end)
    return
  end
  judge_other_places(id, prefix, header, 'waiting')
  if tonumber(score) ~= prefix.place then
    report('place', id, 'stands at ' .. score .. ', its record says ' .. place_text(prefix.place), function()
      redis.call('ZADD', waits_in(lane, key), prefix.place, id)
      if key then
        touch(lane, key)
      end
    end)
  end
end

-- A sequence as a whole: its token or its entry in `out`, exactly one, at its head's score.
local function judge_line(sequence)
  local lane, key = split_sequence(sequence)
  local head = redis.call('ZRANGE', k_sequence(sequence), 0, 0, 'WITHSCORES')[2]
  local token = redis.call('ZSCORE', k_pending(lane), '!' .. key)
  local outside = redis.call('ZSCORE', k_out(lane), key)
  local out = shut_by(sequence)
  local what
  if not head then
    what = (token or outside) and 'has a token and no jobs'
  elseif out then
    what = outside ~= head and 'is ' .. out .. ', and not so listed in out'
    what = token and 'has a token, though it is ' .. out or what
  elseif token ~= head then
    what = token and 'has a token at ' .. token .. ', its head stands at ' .. head or 'has jobs and no token'
  elseif outside then
    what = 'has a token and stands in out'
  end
  if what then
    if head and not token and not outside then
      note_large(sequence)
    end
    report('token', sequence, what, function()
      touch(lane, key)
    end)
  end
end

local function judge_pending(lane, entry, score)
  local key = key_in(entry)
  if key then
    judge_line(sequence_of(lane, key))
  else
    judge_entry(entry, score, lane, nil)
  end
end

local function judge_out(lane, key)
  judge_line(sequence_of(lane, key))
end

local function judge_sequence(sequence, id, score)
  local lane, key = split_sequence(sequence)
  judge_entry(id, score, lane, key)
end

local function judge_scheduled(_, member, due)
  local id = member:sub(PLACE_WIDTH + 1)
  if id == '' or not member:match('^[+-]%d+') then
    report('place', member, 'is delayed and is no job', function()
      redis.call('ZREM', k_scheduled, member)
    end)
    return
  end
  local prefix, header = read_whole(id)
  if not prefix then
    report('record', id, 'is delayed, and its record is gone or cannot be read', function()
      redis.call('ZREM', k_scheduled, member)
      keep_as_dead(id)
    end)
    return
  end
  judge_other_places(id, prefix, header, 'delayed')
  local right = place_text(prefix.place) .. id
  if member ~= right then
    report('place', id, 'is delayed under ' .. member .. ', its record says ' .. right, function()
      redis.call('ZREM', k_scheduled, member)
      redis.call('ZREM', k_delayed(header.lane), member)
      schedule(id, header.lane, place_text(prefix.place), tonumber(due))
    end)
  elseif redis.call('ZSCORE', k_delayed(header.lane), member) ~= due then
    report('delayed', id, 'is due at ' .. due .. ', and not so listed in its lane', function()
      redis.call('ZADD', k_delayed(header.lane), due, member)
    end)
  end
end

local function judge_delayed(lane, member, due)
  local scheduled = redis.call('ZSCORE', k_scheduled, member)
  local id = member:sub(PLACE_WIDTH + 1)
  local prefix, header = read_whole(id)
  local own = prefix and header.lane == lane and place_text(prefix.place) .. id == member
  if scheduled and own then
    return
  end
  if own and not is_dead(id) and not is_claimable(id, header) then
    local held = is_held(id)
    if held == false then
      report('place', id, 'is nowhere: it was delayed', function()
        schedule(id, lane, place_text(prefix.place), tonumber(due))
      end)
      return
    elseif held == nil then
      note('consumers')
      return
    end
  end
  report('delayed', id, 'is listed as delayed in lane ' .. lane .. ' and is not', function()
    redis.call('ZREM', k_delayed(lane), member)
  end)
end

local function judge_dead(_, id)
  local prefix, header = read_whole(id)
  if id == '' then
    report('place', 'a job without an id', 'is dead', function()
      redis.call('ZREM', k_dead, id)
    end)
  elseif not read_prefix(id) then
    report('record', id, 'is dead, and its record is gone or cannot be read', function()
      keep_as_dead(id)
    end)
  elseif prefix and header.on_dead == 'hold' then
    local lane, key = home_of(header)
    local member = key and 'h:' .. sequence_of(lane, key)
    if member and redis.call('ZSCORE', k_blocked, member) == 'inf' and redis.call('HEXISTS', k_why, member) == 0 then
      report('leftover', member, 'blocks a sequence, and what names its dead job is gone', function()
        redis.call('HSET', k_why, member, id)
      end)
    end
  end
end

-- From the record's side: it stands somewhere, and no later than the counter.
local function judge_record(id)
  local prefix, header = read_whole(id)
  local dead = is_dead(id)
  if not prefix then
    if not dead and redis.call('EXISTS', k_job(id)) == 1 and is_held(id) == false then
      report('record', id, 'cannot be read', function()
        keep_as_dead(id)
      end)
    end
    return
  end
  local number = prefix.place % PRIORITY_STEP
  if number > (tonumber(redis.call('GET', k_seq) or 0) or 0) then
    report('counter', 'seq', 'stands behind job ' .. id .. ', number ' .. string.format('%.0f', number), function()
      redis.call('SET', k_seq, string.format('%.0f', number))
    end)
  end
  if dead or is_claimable(id, header) or is_scheduled(id, prefix) then
    return
  end
  local held = is_held(id)
  if held == false then
    report('place', id, 'is nowhere', function()
      put_home(id, prefix, header)
    end)
  elseif held == nil then
    note('consumers')
  end
end

local entry_judges = {
  line = judge_line,
  pending = judge_pending,
  out = judge_out,
  sequence = judge_sequence,
  scheduled = judge_scheduled,
  delayed = judge_delayed,
  dead = judge_dead,
  record = judge_record,
}
