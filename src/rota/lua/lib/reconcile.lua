-- Puts lanes into the ring, or takes them out, as their state says: the one rule of membership.
-- In the ring exactly when it has an entry pending, is neither paused nor blocked, and has a free
-- permit. Asks once for all lanes what can be asked once.
local function are_open(lanes)
  local members, open = {}, {}
  for i, lane in ipairs(lanes) do
    members[i] = 'l:' .. lane
  end
  local paused = fetch_all('SMISMEMBER', k_paused, lanes)
  local blocked = fetch_all('ZMSCORE', k_blocked, members)
  local own = fetch_some(k_glimit, lanes)
  local active = fetch_all('HMGET', k_gactive, lanes)
  for i = 1, #lanes do
    open[i] = paused[i] == 0 and not blocked[i] and tonumber(active[i] or 0) < ceiling_from(own[i])
  end
  return open
end

local function have_pending(lanes)
  local keys, pending, count = {}, {}, 0
  for i, lane in ipairs(lanes) do
    keys[i] = k_pending(lane)
  end
  for first = 1, #keys, CHUNK do
    count = count + redis.call('EXISTS', unpack(keys, first, math.min(first + CHUNK - 1, #keys)))
  end
  for i, key in ipairs(keys) do
    pending[i] = count == #keys or (count > 0 and redis.call('EXISTS', key) == 1)
  end
  return pending
end

local function reconcile(lanes)
  if #lanes == 0 then
    return
  end
  local tags = fetch_all('ZMSCORE', k_ring, lanes)
  local pending, open = have_pending(lanes), are_open(lanes)
  local join, leave, owe = {}, {}, {}
  for i, lane in ipairs(lanes) do
    if pending[i] and open[i] then
      if not tags[i] then
        join[#join + 1] = lane
      end
      wake()
    elseif tags[i] then
      leave[#leave + 1] = lane
      owe[#owe + 1] = tags[i]
      owe[#owe + 1] = lane
    end
  end
  join_ring(join)
  call_all('ZREM', k_ring, leave)
  call_all('ZADD', k_owed, owe)
end
