-- include: clock consumer holding home limits lists sequence_name
-- exports: SHOWN_MAX packed queue_facts lane_facts sequence_facts ring_facts
-- What an explanation is made of: facts of the queue, a lane, a sequence, a consumer, the ring.
-- A fact that does not hold is left out; the reply is one msgpack map, so that fractions survive.
local SHOWN_MAX = 20    -- jobs of one sequence in flight, and sequences of a lane, that are named
local RING_MAX = 1000   -- lanes of the ring whose turns are counted exactly

local function score_of(key, member)
  return tonumber(redis.call('ZSCORE', key, member) or nil)
end

-- The facts, packed. Readers of msgpack take no text that is not UTF-8, and a stored one may be any bytes: each
-- byte goes as the character of its number.
local function spelled(fact)
  if type(fact) == 'string' then
    return (fact:gsub('[\128-\255]', function(byte)
      return string.char(192 + math.floor(byte:byte() / 64), 128 + byte:byte() % 64)
    end))
  elseif type(fact) == 'table' then
    for name, value in pairs(fact) do
      fact[name] = spelled(value)
    end
  end
  return fact
end

local function packed(facts)
  return cmsgpack.pack(spelled(facts))
end

local function queue_facts()
  local set = redis.call('HMGET', k_config, 'paused', 'ceiling', 'sweep', 'sealed')
  return {
    now = now,
    consumers = redis.call('ZCOUNT', k_consumers, '(' .. string.format('%.0f', now), '+inf'),
    permits = count_of(k_stats, 'permits'),
    paused = set[1] or nil,
    paused_until = score_of(k_blocked, 'q:'),
    ceiling = tonumber(set[2] or nil),
    sweeping = set[3] and true or nil,
    sealed = set[4] or nil,
  }
end

-- Where a lane's setting comes from: lane · template · queue; nil where there is none.
local function source_of(own, field, lane, default)
  if redis.call('HEXISTS', own, lane) == 1 then
    return 'lane'
  end
  local name = redis.call('HGET', k_gtemplate, lane)
  if name and template_of(name)[field] then
    return 'template'
  end
  return default and redis.call('HEXISTS', k_config, default) == 1 and 'queue' or nil
end

local function lane_facts(lane)
  local ceiling, rate = ceilings_of({ lane })[1], rates_of({ lane })[1]
  local out = redis.call('ZRANGE', k_out(lane), 0, 0)[1]
  local since = math.min(
    available_since(redis.call('ZRANGE', k_pending(lane), 0, 0)[1], lane),
    available_since(out and '!' .. out, lane)
  )
  local delayed = redis.call('ZRANGE', k_delayed(lane), 0, 0, 'WITHSCORES')
  return {
    name = lane,
    waiting = count_of(k_gwaiting, lane),
    delayed = redis.call('ZCARD', k_delayed(lane)),
    permits = count_of(k_gactive, lane),
    pending = redis.call('ZCARD', k_pending(lane)),
    out = redis.call('ZCARD', k_out(lane)),
    since = since < math.huge and since or nil,
    next_due = tonumber(delayed[2]),
    weight = weight_of(lane),
    template = redis.call('HGET', k_gtemplate, lane) or nil,
    ceiling = ceiling < math.huge and ceiling or nil,
    ceiling_from = source_of(k_glimit, 'ceiling', lane, 'default_ceiling'),
    rate_interval = rate and rate.interval or nil,
    rate_burst = rate and rate.burst or nil,
    rate_from = source_of(k_grate, 'rate', lane),
    rate_until = score_of(k_blocked, 'r:' .. lane),
    paused = redis.call('SISMEMBER', k_paused, lane) == 1,
    pause_why = redis.call('HGET', k_why, 'p:' .. lane) or nil,
    pause_until = score_of(k_blocked, 'p:' .. lane),
    block_until = score_of(k_blocked, 'l:' .. lane),
    block_why = redis.call('HGET', k_why, 'l:' .. lane) or nil,
    in_ring = redis.call('ZSCORE', k_ring, lane) and true or false,
  }
end

-- lease: Unix ms; left out once it has been marked gone, and its jobs are being taken back.
local function consumer_facts(consumer)
  local lease = score_of(k_consumers, consumer)
  return {
    id = consumer,
    name = consumer_name(consumer) or '',
    lease = lease and lease > -math.huge and lease or nil,
  }
end

-- waits_for: the job whose delay, or whose death, keeps the sequence out.
local function sequence_facts(lane, key)
  local sequence = sequence_of(lane, key)
  local holding = read_holding(sequence)
  local facts = {
    key = key,
    jobs = redis.call('ZCARD', k_sequence(sequence)),
    head = redis.call('ZRANGE', k_sequence(sequence), 0, 0)[1],
    in_flight = holding and #holding.jobs or 0,
    running = {},
    consumer = holding and consumer_facts(holding.consumer) or nil,
    block_until = score_of(k_blocked, 's:' .. sequence),
    block_why = redis.call('HGET', k_why, 's:' .. sequence) or nil,
  }
  for i = 1, math.min(facts.in_flight, SHOWN_MAX) do
    facts.running[i] = holding.jobs[i]
  end
  local ends = score_of(k_blocked, 'h:' .. sequence)
  if ends then
    facts.waits_for = redis.call('HGET', k_why, 'h:' .. sequence) or ''
    facts.waits_until = ends < math.huge and ends or nil
    facts.dead_since = score_of(k_dead, facts.waits_for)
  end
  return facts
end

-- The lanes that are served before this one has handed out `before` entries, as far as they are
-- among the ring's first: what their turns are counted from.
local function ring_facts(lane, before)
  local tag = score_of(k_ring, lane)
  if not tag then
    return nil
  end
  local last = tag + before / weight_of(lane)
  last = number_text(last + math.abs(last) * 1e-9) -- the server adds one job at a time
  local rows = redis.call('ZRANGE', k_ring, '-inf', last, 'BYSCORE', 'LIMIT', 0, RING_MAX, 'WITHSCORES')
  local names, tags = split_pairs(rows)
  local waiting = fetch_all('HMGET', k_gwaiting, names)
  for i = 1, #names do
    tags[i], waiting[i] = tonumber(tags[i]), tonumber(waiting[i] or 0)
  end
  return {
    tag = tag,
    weight = weight_of(lane),
    before = before,
    costs = redis.call('EXISTS', k_costs) == 1,
    ahead = redis.call('ZRANK', k_ring, lane),
    lanes = redis.call('ZCOUNT', k_ring, '-inf', last),
    names = names,
    tags = tags,
    weights = weights_of(names),
    waiting = waiting,
  }
end
