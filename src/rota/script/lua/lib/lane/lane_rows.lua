-- include: attempt figures home limits lists
-- exports: lane_rows
-- What a person asks of lanes, each as one flat row.
-- fields: name waiting delayed running ceiling weight paused blocked in_ring since backlog pause_note
-- fields: pause_ends rate template rated next_since served waited charged
-- since: the oldest waiting job has been available; next_since: the same of what may be claimed next, as
-- far as the lane itself goes. pause_note: JSON. blocked, rated: until when it is blocked, out of rate.
-- Instants are Unix ms, 0 where there is none; ceiling, backlog, rate and template are '' where there is none.
-- Of the last full minute and the running one: jobs served, how long these had waited (ms), their charges.
-- Limits are those that hold: the lane's own, else its template's, else the queue's. Asks once for
-- all lanes what can be asked once. What of a lane is damaged is told as none.
local function ask(command, key, before, lanes)
  if redis.call('EXISTS', key) == 0 then
    return {}
  end
  local members = {}
  for i, lane in ipairs(lanes) do
    members[i] = before .. lane
  end
  return fetch_all(command, key, members)
end

-- Jobs, waits and charges of the running minute and the one before, by column.
local function two_minutes(lanes)
  local running = fetch_some(k_figures(minute_text(0)), lanes)
  local last = fetch_some(k_figures(minute_text(1)), lanes)
  local served, waited, beyond = {}, {}, {}
  for i = 1, #lanes do
    local jobs, waits, charges = read_figures(running[i])
    local jobs_before, waits_before, charges_before = read_figures(last[i])
    served[i], waited[i] = jobs + jobs_before, waits + waits_before
    beyond[i] = charges + charges_before
  end
  return served, waited, beyond
end

-- Since when the lane's next entry has been available, and the next of its sequences that are out.
local function next_since(lane)
  return available_since(first_in(k_pending(lane)), lane)
end

local function out_since(lane)
  local key = first_in(k_out(lane))
  return available_since(key and '!' .. key, lane)
end

-- Whether any of the lanes that have work has sequences that are out.
local function some_are_out(lanes, waiting)
  local keys = {}
  for i, lane in ipairs(lanes) do
    if waiting[i] then
      keys[#keys + 1] = k_out(lane)
    end
  end
  return #keys > CHUNK or (#keys > 0 and redis.call('EXISTS', unpack(keys)) > 0)
end

local function or_0(since)
  return since < math.huge and since or 0
end

-- `wants`: says of a lane by its name, place in the ring, jobs served and charges whether to tell of it.
local function lane_rows(lanes, wants)
  if #lanes == 0 then
    return {}
  end
  local waiting, active = fetch_some(k_gwaiting, lanes), fetch_some(k_gactive, lanes)
  local ceilings, weights, backlogs = ceilings_of(lanes), weights_of(lanes), backlogs_of(lanes)
  local rates, templates = settings_of(k_grate, 'rate', lanes), fetch_some(k_gtemplate, lanes)
  local ring, paused = ask('ZMSCORE', k_ring, '', lanes), ask('SMISMEMBER', k_paused, '', lanes)
  local blocked, rated = ask('ZMSCORE', k_blocked, 'l:', lanes), ask('ZMSCORE', k_blocked, 'r:', lanes)
  local ends, notes = ask('ZMSCORE', k_blocked, 'p:', lanes), ask('HMGET', k_why, 'p:', lanes)
  local served, waited, beyond = two_minutes(lanes)
  local some_delayed, some_out = redis.call('EXISTS', k_scheduled) == 1, some_are_out(lanes, waiting)
  local rows = {}
  for i, lane in ipairs(lanes) do
    local following, oldest = math.huge, math.huge
    if waiting[i] then
      following = next_since(lane)
      oldest = math.min(following, some_out and out_since(lane) or following)
    end
    local charged = math.max(0, served[i] + beyond[i])
    rows[#rows + 1] = (not wants or wants(lane, ring[i], served[i], charged)) and {
      lane,
      tonumber(waiting[i] or 0) or 0,
      some_delayed and attempt('ZCARD', k_delayed(lane)) or 0,
      tonumber(active[i] or 0) or 0,
      ceilings[i] == math.huge and '' or ceilings[i],
      number_text(weights[i]),
      paused[i] or 0,
      tonumber(blocked[i] or 0),
      ring[i] and 1 or 0,
      or_0(oldest),
      backlogs[i] == math.huge and '' or backlogs[i],
      notes[i] or '',
      tonumber(ends[i] or 0),
      rate_from(rates[i]) and rates[i] or '',
      templates[i] or '',
      tonumber(rated[i] or 0),
      or_0(following),
      served[i],
      waited[i],
      number_text(charged),
    } or nil
  end
  return rows
end
