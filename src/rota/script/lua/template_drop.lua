#!lua flags=allow-oom
-- include: bell limits sweep
-- args: name
-- resend: receipt
-- Removes a template. Lanes that refer to it fall back to the queue's defaults until there is one
-- of that name again.
-- Reply: 1 there was one, 0 there was none
local weighs = template_of(name).weight ~= nil
local was = redis.call('HDEL', k_templates, name)
if was == 1 then
  begin_sweep(weighs)
  wake_timers()
end
ring_bell()
return was
