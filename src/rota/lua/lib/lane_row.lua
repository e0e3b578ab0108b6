-- What a person asks of a lane, as one flat row:
--   lane, waiting, delayed, running, ceiling ('' none), weight, paused, blocked until (0 not),
--   ready (1 in the ring), since (Unix ms the oldest waiting job has been available; 0 none),
--   backlog limit ('' none), why it is paused (JSON, '' not), until when (Unix ms, 0 no end)
local function available_since(entry, lane)
  if entry and entry:byte(1) == 33 then
    entry = redis.call('ZRANGE', k_sequence(sequence_of(lane, entry:sub(2))), 0, 0)[1]
  end
  local prefix = entry and read_prefix(entry)
  return prefix and prefix.available or math.huge
end

local function lane_row(lane)
  local out = redis.call('ZRANGE', k_out(lane), 0, 0)[1]
  local since = math.min(
    available_since(redis.call('ZRANGE', k_pending(lane), 0, 0)[1], lane),
    available_since(out and '!' .. out, lane)
  )
  local ceiling = ceiling_from(redis.call('HGET', k_glimit, lane))
  return {
    lane,
    tonumber(redis.call('HGET', k_gwaiting, lane) or 0),
    redis.call('ZCARD', k_delayed(lane)),
    tonumber(redis.call('HGET', k_gactive, lane) or 0),
    ceiling == math.huge and '' or ceiling,
    number_text(weight_of(lane)),
    redis.call('SISMEMBER', k_paused, lane),
    tonumber(redis.call('ZSCORE', k_blocked, 'l:' .. lane) or 0),
    redis.call('ZSCORE', k_ring, lane) and 1 or 0,
    since == math.huge and 0 or since,
    redis.call('HGET', k_gmax, lane) or '',
    redis.call('HGET', k_why, 'p:' .. lane) or '',
    tonumber(redis.call('ZSCORE', k_blocked, 'p:' .. lane) or 0),
  }
end
