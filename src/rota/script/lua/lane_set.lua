#!lua flags=allow-oom
-- include: bell clock limits lists rate reconcile turn
-- args: lane ceiling weight rate backlog template
-- resend: yes
-- Changes a lane's limits and looks at the lane again. Each limit: '' unchanged, '-' removed, else its
-- new value. A new weight rescales what the lane owes: vt + (tag - vt) * old / new.
-- Reply: 1, or 0 where there is no such template and nothing was changed
if template ~= '' and template ~= '-' and redis.call('HEXISTS', k_templates, template) == 0 then
  return 0
end
redis.call('HSETNX', k_config, 'needs', 1)
local old, old_rate = weight_of(lane), rates_of({ lane })[1]
set_field(k_glimit, lane, ceiling)
set_field(k_gweight, lane, weight)
set_field(k_grate, lane, rate)
set_field(k_gmax, lane, backlog)
set_field(k_gtemplate, lane, template)
forget_limits()

local function rescale(key, ratio)
  local tag = redis.call('ZSCORE', key, lane)
  if tag then
    local vt = rotation()
    redis.call('ZADD', key, number_text(vt + (tonumber(tag) - vt) * ratio), lane)
  end
end
local ratio = old / weight_of(lane)
if ratio ~= 1 then
  rescale(k_ring, ratio)
  rescale(k_owed, ratio)
end
if rate ~= '' or template ~= '' then
  redis.call('ZREM', k_blocked, 'r:' .. lane)
  local new_rate = rates_of({ lane })[1]
  if not new_rate then
    redis.call('ZREM', k_gtat, lane)
  elseif old_rate and (old_rate.interval ~= new_rate.interval or old_rate.burst ~= new_rate.burst) then
    local tat = rate_carried(old_rate, new_rate, redis.call('ZSCORE', k_gtat, lane))
    if tat > now then
      redis.call('ZADD', k_gtat, number_text(tat), lane)
    else
      redis.call('ZREM', k_gtat, lane)
    end
  end
end
reconcile({ lane })
ring_bell()
return 1
