-- include: changes limits lists turn
-- exports: begin_sweep sweep_page
-- A change of what holds for many lanes reaches them in pages, carried on by any beat: `sweep` in
-- config is its cursor. Claims go by the new limits at once, so a page only has to look at its lanes
-- again. Lanes without work are reached when they get some.
local function begin_sweep(weights_too)
  redis.call('HSET', k_config, 'sweep', '0')
  if weights_too then
    redis.call('HSET', k_config, 'sweep_weights', 1)
  end
end

-- A greater weight would leave a lane waiting for what it was charged by the smaller one.
local function lower_tags(key, lanes)
  if #lanes == 0 then
    return
  end
  local tags, weights, vt, set = fetch_all('ZMSCORE', key, lanes), weights_of(lanes), rotation(), {}
  for i, lane in ipairs(lanes) do
    local most = vt + 1 / weights[i]
    if tags[i] and tonumber(tags[i]) > most then
      set[#set + 1] = number_text(most)
      set[#set + 1] = lane
    end
  end
  call_all('ZADD', key, set)
end

local function sweep_work(cursor, limit, weights_too)
  local page = redis.call('HSCAN', k_gwaiting, cursor, 'COUNT', limit)
  local lanes, waits = split_pairs(page[2]), {}
  for i, lane in ipairs(lanes) do
    waits[i] = 'r:' .. lane
    touch(lane)
  end
  call_all('ZREM', k_blocked, waits)
  if weights_too then
    lower_tags(k_ring, lanes)
    lower_tags(k_owed, lanes) -- those that come back by this look
  end
  if page[1] ~= '0' then
    return page[1]
  end
  return weights_too and 'o:0' or nil
end

local function sweep_owed(cursor, limit)
  local page = redis.call('ZSCAN', k_owed, cursor, 'COUNT', limit)
  lower_tags(k_owed, (split_pairs(page[2])))
  return page[1] ~= '0' and 'o:' .. page[1] or nil
end

-- Says whether there is more to sweep.
local function sweep_page(limit)
  local cursor, weights_too = unpack(redis.call('HMGET', k_config, 'sweep', 'sweep_weights'))
  if not cursor then
    return false
  end
  local following
  if cursor:sub(1, 2) == 'o:' then
    following = sweep_owed(cursor:sub(3), limit)
  else
    following = sweep_work(cursor, limit, weights_too)
  end
  if following then
    redis.call('HSET', k_config, 'sweep', following)
    return true
  end
  redis.call('HDEL', k_config, 'sweep', 'sweep_weights')
  return false
end
