#!lua
-- include: attempt bell changes dead_job record sequence_name
-- args: ids
-- resend: receipt
-- Puts dead jobs back in their places, with their attempts and deaths forgiven. One that held its
-- sequence runs before what waits behind it.
-- Reply: one word per id: ok · none (no such dead job) · unreadable (its lane cannot be told, or is broken)
local answers = {}
for i, id in ipairs(ids) do
  local prefix, header = read_whole(id)
  local lane, key, home
  if prefix then
    lane, key = home_of(header)
    home = key and k_sequence(sequence_of(lane, key)) or k_pending(lane)
  end
  if not redis.call('ZSCORE', k_dead, id) then
    answers[i] = 'none'
  elseif not home or not attempt('ZADD', home, string.format('%.0f', prefix.place), id) then
    answers[i] = 'unreadable'
  else
    redis.call('ZREM', k_dead, id)
    if key then
      touch_sequence(lane, key)
      free_sequence(id, header)
    else
      touch_lane(lane)
    end
    redis.call('HDEL', k_attempts, id)
    redis.call('HDEL', k_deaths, id)
    redis.call('HDEL', k_errors, id)
    redis.call('HDEL', k_releases, id)
    count_waiting(lane, 1)
    count_total('waiting', 1)
    count_total('replayed', 1)
    answers[i] = 'ok'
  end
end
write_changes()
ring_bell()
return answers
