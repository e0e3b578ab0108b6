#!lua
-- include: clock bell lists record sequence_name limits out_until rate charge turn reconcile offer
-- include: changes forget dead_job
-- args: ids
-- resend: yes
-- Puts dead jobs back in their places, with their attempts and deaths forgiven. One that held its
-- sequence runs before what waits behind it.
-- Reply: one word per id: ok · none (no such dead job) · unreadable (its lane cannot be told)
local answers = {}
for i, id in ipairs(ids) do
  local prefix, header = read_head(id)
  if not redis.call('ZSCORE', k_dead, id) then
    answers[i] = 'none'
  elseif not header or not header.lane or not prefix then
    answers[i] = 'unreadable'
  else
    local lane, key = home_of(header)
    local score = string.format('%.0f', prefix.place)
    redis.call('ZREM', k_dead, id)
    if key then
      redis.call('ZADD', k_sequence(sequence_of(lane, key)), score, id)
      touch_sequence(lane, key)
      free_sequence(id, header)
    else
      redis.call('ZADD', k_pending(lane), score, id)
      touch_lane(lane)
    end
    redis.call('HDEL', k_attempts, id)
    redis.call('HDEL', k_deaths, id)
    redis.call('HDEL', k_errors, id)
    count_waiting(lane, 1)
    count_total('waiting', 1)
    count_total('replayed', 1)
    answers[i] = 'ok'
  end
end
write_changes()
ring_bell()
return answers
