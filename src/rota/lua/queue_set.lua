#!lua flags=allow-oom
-- include: clock bell lists sequence_name holding limits out_until rate charge turn reconcile offer
-- include: changes sweep
-- args: default_ceiling default_weight ceiling dead_max dead_age
-- resend: yes
-- Changes what holds for the whole queue, each: '' unchanged, '-' removed, else its value. Defaults
-- reach waiting lanes in pages, carried on by any beat. ceiling: most permits of all lanes together.
-- dead_max, dead_age (ms): how many dead jobs are kept, and how long.
-- Reply: 1
redis.call('HSETNX', k_config, 'schema', 1)
local function set(field, value)
  local before = redis.call('HGET', k_config, field)
  if value == '-' then
    redis.call('HDEL', k_config, field)
  elseif value ~= '' then
    redis.call('HSET', k_config, field, value)
  end
  return before ~= redis.call('HGET', k_config, field)
end

local other_ceiling = set('default_ceiling', default_ceiling)
local other_weight = set('default_weight', default_weight)
if other_ceiling or other_weight then
  begin_sweep(other_weight)
end
if set('ceiling', ceiling) then
  wake()
end
set('dead_max', dead_max)
set('dead_age', dead_age)
ring_bell()
return 1
