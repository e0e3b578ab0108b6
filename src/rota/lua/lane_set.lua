#!lua flags=allow-oom
-- include: bell lists limits turn reconcile
-- args: lane ceiling weight backlog
-- resend: yes
-- Changes a lane's limits and looks at the lane again. Each limit: '' unchanged, '-' removed,
-- else its new value. A new weight rescales what the lane owes: vt + (tag - vt) * old / new.
-- Reply: 1
redis.call('HSETNX', k_config, 'schema', 1)

local function set(key, value)
  if value == '-' then
    redis.call('HDEL', key, lane)
  elseif value ~= '' then
    redis.call('HSET', key, lane, value)
  end
end

local function rescale(key, ratio)
  local tag = redis.call('ZSCORE', key, lane)
  if tag then
    local vt = rotation()
    redis.call('ZADD', key, number_text(vt + (tonumber(tag) - vt) * ratio), lane)
  end
end

if weight ~= '' then
  local old = weight_of(lane)
  set(k_gweight, weight)
  local ratio = old / weight_of(lane)
  rescale(k_ring, ratio)
  rescale(k_owed, ratio)
end
set(k_glimit, ceiling)
set(k_gmax, backlog)
reconcile({ lane })
ring_bell()
return 1
