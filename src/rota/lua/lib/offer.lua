-- Places a sequence: its token in the lane's `pending` at its head's score when it has waiting
-- jobs and is neither held nor blocked; in `out` when it has jobs that may not be claimed now.
local function offer(lane, key)
  local sequence = sequence_of(lane, key)
  local head = redis.call('ZRANGE', k_sequence(sequence), 0, 0, 'WITHSCORES')
  if #head == 0 then
    redis.call('ZREM', k_pending(lane), '!' .. key)
    redis.call('ZREM', k_out(lane), key)
  elseif
    redis.call('HEXISTS', k_held, sequence) == 1
    or redis.call('ZSCORE', k_blocked, 's:' .. sequence)
    or redis.call('ZSCORE', k_blocked, 'h:' .. sequence)
  then
    redis.call('ZREM', k_pending(lane), '!' .. key)
    redis.call('ZADD', k_out(lane), head[2], key)
  else
    redis.call('ZREM', k_out(lane), key)
    redis.call('ZADD', k_pending(lane), head[2], '!' .. key)
  end
end
