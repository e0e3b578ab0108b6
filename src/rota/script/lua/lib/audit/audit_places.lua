-- include: changes clock consumer dead_job findings give_back home record
-- exports: CONSUMERS_MAX is_dead is_scheduled is_claimable is_held keep_as_dead take_out
-- exports: judge_other_places put_home forget_places
-- Where a job stands, and putting it where it belongs.
local CONSUMERS_MAX = 5000
local some = {}

-- Whether a key exists at all: asked once a script, as most queues have few of them.
local function exists(key)
  if some[key] == nil then
    some[key] = redis.call('EXISTS', key) == 1
  end
  return some[key]
end

local function is_dead(id)
  return exists(k_dead) and redis.call('ZSCORE', k_dead, id)
end

local function is_scheduled(id, prefix)
  return exists(k_scheduled) and redis.call('ZSCORE', k_scheduled, place_text(prefix.place) .. id)
end

local function is_claimable(id, header)
  return redis.call('ZSCORE', waits_in(home_of(header)), id)
end

-- Whether some consumer holds the job; nil where there are too many to ask.
local everyone
local function is_held(id)
  everyone = everyone or redis.call('ZRANGE', k_consumers, 0, CONSUMERS_MAX)
  add_work(#everyone / 5)
  if #everyone > CONSUMERS_MAX then
    return nil
  end
  return one_holds(everyone, id)
end

-- A record that cannot be read, or has gone, is kept among the dead with its bytes.
local function keep_as_dead(id)
  local bytes = redis.call('GET', k_job(id)) or ''
  write_stand_in(id, 0, '', nil, bytes)
  redis.call('HSET', k_errors, id, cjson.encode({ error = 'its record was missing or could not be read' }))
  if redis.call('ZADD', k_dead, 'NX', now, id) == 1 then
    count_total('buried', 1)
  end
  some[k_dead] = true
end

-- Takes a job out of a lane's entries; `key` nil: unordered.
local function take_out(id, lane, key)
  if redis.call('ZREM', waits_in(lane, key), id) == 1 then
    count_waiting(lane, -1)
    count_total('waiting', -1)
  end
  touch(lane, key)
end

-- Judges a job that stands in one place: whether it stands in others too. is: what it is there.
local function judge_other_places(id, prefix, header, is)
  if is_dead(id) then
    report('place', id, 'is ' .. is .. ' and dead', function()
      redis.call('ZREM', k_dead, id)
      free_sequence(id, header)
    end)
  end
  if is == 'running' and is_claimable(id, header) then
    report('place', id, 'is running and waiting', function()
      take_out(id, home_of(header))
    end)
  end
  if is ~= 'delayed' and is_scheduled(id, prefix) then
    report('place', id, 'is ' .. is .. ' and delayed', function()
      redis.call('ZREM', k_scheduled, place_text(prefix.place) .. id)
      redis.call('ZREM', k_delayed(header.lane), place_text(prefix.place) .. id)
    end)
  end
end

-- Puts a job that is nowhere where its record says. Counts are left alone: most likely it is still
-- counted where it was, and lanes are recounted after this.
local function put_home(id, prefix, header)
  local lane, key = home_of(header)
  local due = redis.call('ZSCORE', k_delayed(lane), place_text(prefix.place) .. id)
  if prefix.available == 0 or due then
    schedule(id, lane, place_text(prefix.place), tonumber(due or now))
    some[k_scheduled] = true
  else
    redis.call('ZADD', waits_in(lane, key), prefix.place, id)
    touch(lane, key)
  end
end

-- Before the next thing is judged in a script that has mended one.
local function forget_places()
  everyone, some = nil, {}
end
