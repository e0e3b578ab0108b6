#!lua flags=allow-oom
-- include: bell
-- args: default_ceiling dead_max dead_age paused
-- resend: yes
-- Changes what holds for the whole queue, each: '' unchanged, '-' removed, else its value. A
-- default ceiling reaches waiting lanes in pages, carried on by any beat. dead_max, dead_age (ms):
-- how many dead jobs are kept, and how long. paused: '-' opens the gate, else JSON {reason, by} and
-- the gate is shut.
-- Reply: 1
redis.call('HSETNX', k_config, 'schema', 1)
local function set(field, value)
  if value == '-' then
    redis.call('HDEL', k_config, field)
  elseif value ~= '' then
    redis.call('HSET', k_config, field, value)
  end
end

local before = redis.call('HGET', k_config, 'default_ceiling')
set('default_ceiling', default_ceiling)
set('dead_max', dead_max)
set('dead_age', dead_age)
set('paused', paused)
if before ~= redis.call('HGET', k_config, 'default_ceiling') then
  redis.call('HSET', k_config, 'sweep', '0')
end
if paused == '-' then
  wake()
end
ring_bell()
return 1
