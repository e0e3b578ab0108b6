-- include: asked attempt bury changes clock consumer delivery give_back holding record
-- exports: mark_gone reap_consumer
-- Takes back what a consumer holds, in pages; it must be marked (deadline -inf) before. With
-- `blame`, a job that had started counts a death; at the third it is buried. One that was asked to be
-- cancelled is gone. What is held in words that cannot be read leaves its hands too: its record is what
-- tells its place.
local DEATHS_MAX = 3

local function mark_gone(consumer)
  redis.call('ZADD', k_consumers, '-inf', consumer)
end

local function lost_worker(consumer)
  local name = consumer_name(consumer) or consumer
  return cjson.encode({ error = 'worker lost', worker = name, at = now })
end

-- Says how many jobs left the consumer's hands.
local function take_back(consumer, id, held, blame)
  if is_asked(id) then
    return 1 + cancel_held(consumer, id, held, true)
  end
  if blame and held.mark ~= 'u' then
    local deaths = redis.call('HINCRBY', k_deaths, id, 1)
    if deaths >= DEATHS_MAX then
      local _, header = read_head(id)
      local hold = header ~= nil and header.on_dead == 'hold'
      return 1 + bury(consumer, id, held, lost_worker(consumer), hold)
    end
  end
  return 1 + give_back(consumer, id, held, 0)
end

-- A sequence goes back as a whole: only its first job can have started.
local function take_back_sequence(consumer, held, blame)
  local holding = read_holding(held.sequence)
  local first, back = holding and holding.jobs[1], 0
  for _, id in ipairs(holding and holding.jobs or {}) do
    local text = redis.call('HGET', k_consumer(consumer), id)
    local taken = text and read_delivery(text)
    if taken then
      refund_rate(held.lane, id == first and 0 or 1)
      back = back + take_back(consumer, id, taken, blame and id == first)
    end
  end
  return back
end

local function let_go(consumer, id)
  redis.call('HDEL', k_consumer(consumer), id)
  count_total('running', -1)
  note_broken()
end

-- Takes back about `limit` jobs; says how many, and whether the consumer holds none any more.
local function reap_page(consumer, limit, blame)
  local hash = k_consumer(consumer)
  local cursor, back = '0', 0
  repeat
    local page = redis.call('HSCAN', hash, cursor, 'COUNT', limit)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local id = page[2][i]
      local text = not is_own(id) and back < limit and redis.call('HGET', hash, id)
      if text then
        local held = read_delivery(text)
        if not held then
          let_go(consumer, id)
          back = back + 1
        elseif held.sequence then
          back = back + take_back_sequence(consumer, held, blame)
        end
        if held and redis.call('HEXISTS', hash, id) == 1 then
          back = back + take_back(consumer, id, held, blame)
        end
      end
    end
  until cursor == '0' or back >= limit
  return back, jobs_held(consumer) == 0
end

local function forget_consumer(consumer)
  redis.call('ZREM', k_consumers, consumer)
  redis.call('HDEL', k_orders, consumer)
end

-- The consumer's entry and hash go with its last job. Of a hash that is damaged nothing can be taken: the
-- entry goes, so that nobody looks at it again.
local function reap_consumer(consumer, limit, blame)
  if not attempt('HLEN', k_consumer(consumer)) then
    forget_consumer(consumer)
    return 0, true
  end
  local back, empty = reap_page(consumer, limit, blame)
  if empty then
    redis.call('DEL', k_consumer(consumer))
    forget_consumer(consumer)
  end
  return back, empty
end
