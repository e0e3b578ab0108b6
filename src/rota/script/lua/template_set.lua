#!lua flags=allow-oom
-- include: bell limits sweep
-- args: name ceiling weight rate backlog
-- resend: yes
-- Makes a template, or changes it, for the lanes that refer to it and have no setting of their own;
-- they are reached in pages, carried on by any beat. Each: '' unchanged, '-' removed, else its value.
-- Reply: 1
redis.call('HSETNX', k_config, 'needs', 1)
local settings = template_of(name)
local old = settings.weight
for field, value in pairs({ ceiling = ceiling, weight = weight, rate = rate, backlog = backlog }) do
  if value == '-' then
    settings[field] = nil
  elseif value ~= '' then
    settings[field] = value
  end
end
redis.call('HSET', k_templates, name, next(settings) and cjson.encode(settings) or '{}')
begin_sweep(settings.weight ~= old)
wake_timers()
ring_bell()
return 1
