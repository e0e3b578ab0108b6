#!lua flags=allow-oom
-- include: bell lists sweep
-- args: default_ceiling default_weight ceiling dead_max dead_age declared
-- resend: receipt
-- Changes what holds for the whole queue, each: '' unchanged, '-' removed, else its value. Defaults
-- reach waiting lanes in pages, carried on by any beat. ceiling: most permits of all lanes together.
-- dead_max, dead_age (ms): how many dead jobs are kept, and how long.
-- declared: the default ceiling stands in code, which every process tells: it is set when it differs
-- from what code said last, so that what was set since by hand stays until code says otherwise.
-- Reply: 1, or 0 where code has said this before
redis.call('HSETNX', k_config, 'needs', 1)
if declared then
  if redis.call('HGET', k_config, 'declared_ceiling') == default_ceiling then
    return 0
  end
  redis.call('HSET', k_config, 'declared_ceiling', default_ceiling)
end

local function set(field, value)
  local before = redis.call('HGET', k_config, field)
  set_field(k_config, field, value)
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
