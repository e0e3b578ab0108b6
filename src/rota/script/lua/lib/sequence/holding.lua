-- include: blocked
-- exports: read_holding shut_by holding_text write_holding end_move
-- A held sequence: its consumer and its jobs in flight, in order, joined by newlines (which no
-- name contains). Absence from `held` is the only lock there is.
local function read_holding(sequence)
  local text = redis.call('HGET', k_held, sequence)
  if not text then
    return nil
  end
  local jobs, consumer = {}, nil
  for part in text:gmatch('[^\n]+') do
    if consumer then
      jobs[#jobs + 1] = part
    else
      consumer = part
    end
  end
  return { consumer = consumer, jobs = jobs }
end

-- Why no job of a sequence may be claimed now: held · blocked; nil: they may, as far as it goes.
local function shut_by(sequence)
  if redis.call('HEXISTS', k_held, sequence) == 1 then
    return 'held'
  elseif redis.call('ZSCORE', k_blocked, 's:' .. sequence) or redis.call('ZSCORE', k_blocked, 'h:' .. sequence) then
    return 'blocked'
  end
  return nil
end

local function holding_text(consumer, jobs)
  return consumer .. '\n' .. table.concat(jobs, '\n')
end

local function write_holding(sequence, consumer, jobs)
  if #jobs == 0 then
    redis.call('HDEL', k_held, sequence)
  else
    redis.call('HSET', k_held, sequence, holding_text(consumer, jobs))
  end
end

-- While a long sequence moves to another lane in pages, its rest is kept out without an end. When
-- nothing is left of it, whatever emptied it, there is nothing to keep out.
local function end_move(sequence)
  if
    redis.call('EXISTS', k_sequence(sequence)) == 0
    and redis.call('ZSCORE', k_blocked, 's:' .. sequence) == 'inf'
  then
    unblock('s:' .. sequence)
  end
end
