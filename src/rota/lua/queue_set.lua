#!lua flags=allow-oom
-- include: bell
-- args: default_ceiling paused
-- resend: yes
-- Changes what holds for the whole queue. default_ceiling: '' unchanged, '-' removed, else its
-- value; it reaches waiting lanes in pages, carried on by any beat. paused: '' unchanged,
-- '-' opens the gate, else JSON {reason, by, at} and the gate is shut.
-- Reply: 1
redis.call('HSETNX', k_config, 'schema', 1)
if default_ceiling == '-' then
  redis.call('HDEL', k_config, 'default_ceiling')
elseif default_ceiling ~= '' then
  redis.call('HSET', k_config, 'default_ceiling', default_ceiling)
end
if default_ceiling ~= '' then
  redis.call('HSET', k_config, 'sweep', '0')
end
if paused == '-' then
  redis.call('HDEL', k_config, 'paused')
  wake()
elseif paused ~= '' then
  redis.call('HSET', k_config, 'paused', paused)
end
ring_bell()
return 1
