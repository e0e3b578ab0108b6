#!lua flags=no-writes
-- include: attempt clock figures
-- resend: yes
-- Totals of the queue.
-- fields: stats delayed dead lanes_waiting lanes_ready lanes_paused consumers
-- fields: default_ceiling default_weight ceiling pause_note pause_ends served beat_age overdue sealed
-- stats: flat. consumers: with a lease. Limits: '' none. pause_note: JSON, '' not paused; pause_ends: Unix
-- ms, 0 no end. served: jobs handed out in this minute and the one before. beat_age: ms since someone kept
-- the time, -1 nobody did; overdue: for how many ms something has been due, 0 nothing is. sealed: 1, or 0.
local function jobs_served(back)
  return (read_figures(attempt('HGET', k_figures(minute_text(back)), '')))
end

local set = redis.call('HMGET', k_config, 'default_ceiling', 'default_weight', 'ceiling', 'paused', 'beat', 'sealed')
local beat = tonumber(set[5] or nil)
local first_due = redis.call('ZRANGE', k_scheduled, 0, 0, 'WITHSCORES')[2]
return {
  redis.call('HGETALL', k_stats),
  redis.call('ZCARD', k_scheduled),
  redis.call('ZCARD', k_dead),
  redis.call('HLEN', k_gwaiting),
  redis.call('ZCARD', k_ring),
  redis.call('SCARD', k_paused),
  redis.call('ZCOUNT', k_consumers, '(' .. string.format('%.0f', now), '+inf'),
  set[1] or '',
  set[2] or '',
  set[3] or '',
  set[4] or '',
  tonumber(redis.call('ZSCORE', k_blocked, 'q:') or 0),
  jobs_served(0) + jobs_served(1),
  beat and math.max(0, now - beat) or -1,
  first_due and math.max(0, now - first_due) or 0,
  set[6] and 1 or 0,
}
