-- include: audit_places blocked changes charge clock figures findings limits sequence_name
-- exports: note_judges
-- Judges of what belongs to something else and must go with it, and of settings nobody can read.
local function note_lane(_, lane)
  note(lane)
end


local function report_lost_note(member, what)
  report('leftover', member, what, function()
    redis.call('HSET', k_why, member, '{}')
  end)
end

local function judge_number(key)
  return function(_, lane, value)
    note_lane(nil, lane)
    if not is_count(value) then
      report_field('count', lane, 'is counted in words that cannot be read: ' .. value, key, lane)
    end
  end
end

local function judge_owed(_, lane)
  if redis.call('ZSCORE', k_ring, lane) then
    report('ring', lane, 'stands in the ring and in owed', function()
      redis.call('ZREM', k_owed, lane)
    end)
  end
end

local function is_sequence_name(name)
  local length = name:match('^(%d+):')
  return length and #name >= #length + tonumber(length) + 2
end

local function let_go(member)
  unblock(member)
  local kind, name = member:sub(1, 2), member:sub(3)
  if kind == 's:' or kind == 'h:' then
    if is_sequence_name(name) then
      touch(split_sequence(name))
    end
  elseif name ~= '' then
    touch(name)
  end
end

-- The block of a sequence whose head waits names that head, and ends with it.
local function judge_head_block(member, till, id)
  if id then
    local is_there = till == 'inf' and redis.call('ZSCORE', k_dead, id)
      or till ~= 'inf' and redis.call('EXISTS', k_job(id)) == 1
    if not is_there then
      report('leftover', member, 'blocks a sequence for job ' .. id .. ', which is not there', function()
        let_go(member)
      end)
    end
  else
    local head = till ~= 'inf' and redis.call('ZRANGE', k_sequence(member:sub(3)), 0, 0)[1]
    report('leftover', member, 'blocks a sequence, and what names the job is gone', function()
      if head then
        redis.call('HSET', k_why, member, head)
      else
        let_go(member)
      end
    end)
  end
end

local function judge_blocked(_, member, till)
  local kind, name = member:sub(1, 2), member:sub(3)
  local function end_it()
    let_go(member)
  end
  local why = redis.call('HGET', k_why, member)
  if kind == 'p:' then
    note_lane(nil, name)
    if redis.call('SISMEMBER', k_paused, name) == 0 and not why then
      report('leftover', member, 'ends a pause that is not', end_it)
    end
  elseif kind == 'q:' then
    if redis.call('HEXISTS', k_config, 'paused') == 0 then
      report('leftover', member, 'ends a pause of the queue that is not', end_it)
    end
  elseif kind == 'r:' then
    note_lane(nil, name)
    if tonumber(till) > now and not redis.call('ZSCORE', k_gtat, name) then
      report('leftover', member, 'keeps a lane out that has used up nothing of its rate', end_it)
    end
  elseif kind == 'l:' then
    note_lane(nil, name)
    if not why then
      report_lost_note(member, 'blocks a lane, and its note is gone')
    end
  elseif (kind == 's:' or kind == 'h:') and is_sequence_name(name) then
    if kind == 'h:' then
      judge_head_block(member, till, why)
    elseif not why then
      report_lost_note(member, 'blocks a sequence, and its note is gone')
    end
  else
    report('leftover', member, 'blocks nothing that there is', end_it)
  end
end

-- A note tells what was paused or stopped after that itself was lost.
local function judge_why(_, member, text)
  local kind, name = member:sub(1, 2), member:sub(3)
  local blocked = redis.call('ZSCORE', k_blocked, member)
  if kind == 'p:' then
    if redis.call('SISMEMBER', k_paused, name) == 0 then
      report('leftover', member, 'is the note of a pause, and the lane is not paused: ' .. text, function()
        redis.call('SADD', k_paused, name)
        touch(name)
      end)
    end
  elseif kind == 'h:' and not blocked and is_sequence_name(name) and redis.call('ZSCORE', k_dead, text) then
    report('leftover', member, 'says that dead job ' .. text .. ' holds the sequence, which is not blocked', function()
      redis.call('ZADD', k_blocked, '+inf', member)
      touch(split_sequence(name))
    end)
  elseif kind == 'r:' or kind == 'q:' or not blocked then
    report_field('leftover', member, 'is the note of a block that is not: ' .. text, k_why, member)
  end
end

local function judge_gtat(_, lane)
  if redis.call('HEXISTS', k_gtemplate, lane) == 0 and redis.call('HEXISTS', k_grate, lane) == 0 then
    report('leftover', lane, 'has used up of a rate, and has none', function()
      redis.call('ZREM', k_gtat, lane)
      redis.call('ZREM', k_blocked, 'r:' .. lane)
      touch(lane)
    end)
  end
end

local function judge_durations(_, task, value)
  if not tonumber(value) then
    report_field('limits', task, 'has a mean run time that cannot be read: ' .. value, k_durations, task)
  end
end

local function judge_paused(_, lane)
  note_lane(nil, lane)
  if redis.call('HEXISTS', k_why, 'p:' .. lane) == 0 then
    report_lost_note('p:' .. lane, 'is paused, and the note of it is gone')
  end
end

local function judge_fact(key, what, readable)
  return function(_, id, value)
    local gone = redis.call('EXISTS', k_job(id)) == 0
    if gone or not readable(value) then
      local found = gone and 'is gone, and there are still its ' or 'has unreadable '
      report_field('leftover', id, found .. what, key, id)
    end
  end
end

local function is_positive(value)
  local number = tonumber(value)
  return number and number > 0 and number < math.huge
end

local function is_cost(value)
  local number = value:match(BY_TIME)
  return number == '' or is_positive(number or value)
end

local judge_request = judge_fact(k_cancels, 'request to cancel it', is_text)
local function judge_cancels(_, id, value)
  judge_request(nil, id, value)
  if redis.call('EXISTS', k_job(id)) == 1 and is_held(id) == false then
    report_field('leftover', id, 'is asked to stop, and does not run', k_cancels, id)
  end
end

local function is_rate(value)
  local rate = rate_from(value)
  return rate and is_positive(rate.interval) and is_positive(rate.burst)
end

local function is_name(value)
  return value ~= ''
end

local function is_template(value)
  local ok, settings = pcall(cjson.decode, value)
  if not ok or type(settings) ~= 'table' then
    return false
  end
  return is_count(tostring(settings.ceiling or 0))
    and is_positive(settings.weight or 1)
    and is_rate(settings.rate or '1,1')
    and is_count(tostring(settings.backlog or 0))
end

local function judge_setting(key, of_lane, readable)
  return function(_, name, value)
    if not readable(value) then
      report('limits', name, 'has a setting that cannot be read: ' .. value, function()
        redis.call('HDEL', key, name)
        if of_lane then
          touch(name)
        end
      end)
    end
  end
end
local whole_numbers = {
  beat = true,
  ceiling = true,
  dead_age = true,
  dead_at = true,
  dead_max = true,
  default_ceiling = true,
  needs = true,
}
local function judge_config(_, field, value)
  local ok = not whole_numbers[field] or value:match('^%d+$')
  if field == 'default_weight' then
    ok = is_positive(value)
  elseif field == 'sweep' then
    ok = value:match('^o?:?%d+$')
  end
  if not ok then
    report_field('limits', 'config ' .. field, 'cannot be read: ' .. value, k_config, field)
  end
end

local function judge_stats(_, field, value)
  if not value:match('^%-?%d+$') then
    report_field('count', field, 'cannot be read: ' .. value, k_stats, field)
  end
end

-- Figures of a minute, which every claim adds to.
local function judge_figures(minute, lane, value)
  local jobs, waits = figures_in(value)
  if not jobs or jobs < 0 or waits < 0 then
    report_field('count', 'figures:' .. minute .. ' ' .. lane, 'cannot be read', k_figures(minute), lane)
  end
end

-- A key of the catalogue, named '<type>\n<life in ms, 0 for good>\n<name below the root>'.
local function judge_key(text)
  local kind, life, name = text:match('^([^\n]*)\n(%d+)\n(.*)$')
  local key = root .. name
  local is, left = redis.call('TYPE', key).ok, redis.call('PTTL', key)
  life = tonumber(life)
  if is == 'none' then
    return
  elseif is ~= kind then
    report('key', name, 'is a ' .. is .. (kind == 'none' and ', and must not be' or ' and should be a ' .. kind))
  elseif life == 0 and left >= 0 then
    report('key', name, 'would vanish in ' .. left .. ' ms', function()
      redis.call('PERSIST', key)
    end)
  elseif life > 0 and (left < 0 or left > life) then
    report('leftover', name, left < 0 and 'would stay for ever' or 'would stay for ' .. left .. ' ms', function()
      redis.call('PEXPIRE', key, life)
    end)
  end
end

local function judge_scalar(name)
  if name == 'wake' then
    local length = redis.call('LLEN', k_wake)
    if length > 64 then
      report('leftover', 'wake', 'has ' .. length .. ' tokens', function()
        redis.call('LTRIM', k_wake, 0, 63)
      end)
    end
  elseif name == 'seq' then
    local seq = redis.call('GET', k_seq)
    if seq and not is_count(seq) then
      report('counter', 'seq', 'cannot be read: ' .. seq, function()
        redis.call('SET', k_seq, 0) -- the records say how far it was
      end)
    end
  elseif name == 'vt' then
    local vt = redis.call('GET', k_vt)
    local number = tonumber(vt or 0)
    if not number or number ~= number or number < 0 or number == math.huge then
      report('ring', 'vt', 'cannot be read: ' .. vt, function()
        redis.call('SET', k_vt, redis.call('ZRANGE', k_ring, 0, 0, 'WITHSCORES')[2] or '0')
      end)
    end
  end
end

local note_judges = {
  attempts = judge_fact(k_attempts, 'attempts', is_count),
  blocked = judge_blocked,
  cancels = judge_cancels,
  config = judge_config,
  costs = judge_fact(k_costs, 'cost', is_cost),
  deaths = judge_fact(k_deaths, 'deaths', is_count),
  durations = judge_durations,
  errors = judge_fact(k_errors, 'error', is_text),
  figures = judge_figures,
  gactive = judge_number(k_gactive),
  glimit = judge_setting(k_glimit, true, is_count),
  gmax = judge_setting(k_gmax, true, is_count),
  grate = judge_setting(k_grate, true, is_rate),
  gtat = judge_gtat,
  gtemplate = judge_setting(k_gtemplate, true, is_name),
  gwaiting = judge_number(k_gwaiting),
  gweight = judge_setting(k_gweight, true, is_positive),
  key = judge_key,
  owed = judge_owed,
  paused = judge_paused,
  releases = judge_fact(k_releases, 'releases', is_count),
  ring = note_lane,
  scalar = judge_scalar,
  stats = judge_stats,
  templates = judge_setting(k_templates, false, is_template),
  why = judge_why,
}
