-- include: config lists
-- exports: queue_ceiling had_costs template_of settings_of ceilings_of weights_of weight_of
-- exports: rate_from rates_of forget_limits check_limits backlogs_of
-- state: some_limits
-- What a lane may do: its own setting, else its template's, else the queue's.
local usual_ceiling = tonumber(config[4] or nil) or math.huge
local usual_weight = tonumber(config[5] or nil) or 1
local queue_ceiling = tonumber(config[6] or nil)
local had_costs = config[7] and true or false
local some_limits = redis.call('EXISTS', k_glimit, k_gweight, k_grate, k_gtemplate) > 0
local known_templates = {}

-- A template's settings, as texts; one that is unknown, or cannot be read, has none.
local function template_of(name)
  local known = known_templates[name]
  if not known then
    local text = redis.call('HGET', k_templates, name)
    local readable, settings = pcall(cjson.decode, text or '{}')
    known = readable and type(settings) == 'table' and settings or {}
    known_templates[name] = known
  end
  return known
end

-- One setting of many lanes, as text: in hash `key`, or as `field` of the lane's template.
local function settings_of(key, field, lanes)
  if not some_limits then
    return {}
  end
  local own, named, found = fetch_some(key, lanes), fetch_some(k_gtemplate, lanes), {}
  for i = 1, #lanes do
    found[i] = own[i] or (named[i] and template_of(named[i])[field]) or nil
  end
  return found
end

local function numbers_of(key, field, lanes, default)
  local found = settings_of(key, field, lanes)
  for i = 1, #lanes do
    local text = found[i]
    found[i] = text and tonumber(text) or default
  end
  return found
end

local function ceilings_of(lanes)
  return numbers_of(k_glimit, 'ceiling', lanes, usual_ceiling)
end

local function weights_of(lanes)
  return numbers_of(k_gweight, 'weight', lanes, usual_weight)
end

local function weight_of(lane)
  return weights_of({ lane })[1]
end

-- A rate is stored as '<ms a job>,<burst>,<n>,<per s>'; the last two are for people. One that cannot be read
-- is none. tolerance: how far ahead of the time its jobs may run; within a millisecond, the clock's grain,
-- always as many as fit into it.
local function rate_from(text)
  local interval, burst = tostring(text or ''):match('^([^,]+),([^,]+)')
  interval, burst = tonumber(interval), tonumber(burst)
  if not interval or not burst then
    return false
  end
  return { interval = interval, burst = burst, tolerance = math.max((burst - 1) * interval, 1 - interval) }
end

local function rates_of(lanes)
  local found = settings_of(k_grate, 'rate', lanes)
  for i = 1, #lanes do
    found[i] = rate_from(found[i])
  end
  return found
end

-- For a script that changes limits and asks for them again.
local function forget_limits()
  some_limits = true
  forget_absent()
end

-- Before the first write.
local function check_limits()
  if some_limits then
    for _, key in ipairs({ k_glimit, k_gweight }) do
      is_absent(key)
    end
    if not is_absent(k_gtemplate) then
      -- check: templates gtat
    elseif not is_absent(k_grate) then
      -- check: gtat
    end
    is_absent(k_grate)
  end
end

-- How many jobs may wait and be delayed in lanes: their own limit, else their template's, else none.
-- Apart from the other limits, which nothing that stores jobs pays for.
local function backlogs_of(lanes)
  local found = {}
  local own, named = fetch_some(k_gmax, lanes), fetch_some(k_gtemplate, lanes)
  for i = 1, #lanes do
    local text = own[i] or (named[i] and template_of(named[i]).backlog)
    found[i] = tonumber(text or nil) or math.huge
  end
  return found
end
