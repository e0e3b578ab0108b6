#!lua
-- include: attempt bell changes dead_job home record
-- args: ids
-- resend: receipt
-- Puts dead jobs back in their places, with their attempts and deaths forgiven. One that held its
-- sequence runs before what waits behind it.
-- Reply: one word per id: ok · none (no such dead job) · unreadable (its lane cannot be told, or is broken)
local answers = {}
for i, id in ipairs(ids) do
  local prefix, header = read_whole(id)
  if not redis.call('ZSCORE', k_dead, id) then
    answers[i] = 'none'
  elseif not prefix or not attempt('ZADD', waits_in(home_of(header)), prefix.place, id) then
    answers[i] = 'unreadable'
  else
    local lane, key = home_of(header)
    redis.call('ZREM', k_dead, id)
    touch(lane, key)
    free_sequence(id, header)
    for _, counts in ipairs({ k_attempts, k_deaths, k_errors, k_releases }) do
      redis.call('HDEL', counts, id)
    end
    count_waiting(lane, 1)
    count_total('waiting', 1)
    count_total('replayed', 1)
    answers[i] = 'ok'
  end
end
write_changes()
ring_bell()
return answers
