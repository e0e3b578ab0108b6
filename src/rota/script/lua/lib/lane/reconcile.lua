-- include: bell limits lists rate turn
-- exports: are_open reconcile
-- Puts lanes into the ring, or takes them out, as their state says: the one rule of membership.
-- In the ring exactly when it has an entry pending, is neither paused nor blocked nor out of rate,
-- and has a free permit. Asks once for all lanes what can be asked once.

-- Lanes without a job to the credit of their rate are kept out until the next.
local function close_without_credit(lanes, open)
  local rates, tats = rates_of(lanes), nil
  for i, lane in ipairs(lanes) do
    if open[i] and rates[i] then
      tats = tats or fetch_all('ZMSCORE', k_gtat, lanes)
      if rate_credit(rates[i], tats[i]) < 1 then
        keep_out(lane, rates[i], tats[i])
        open[i] = false
      end
    end
  end
end

-- Which of the lanes may be served, given that they have an entry pending.
local function are_open(lanes)
  local members, out_of_rate, open = {}, {}, {}
  for i, lane in ipairs(lanes) do
    members[i] = 'l:' .. lane
    out_of_rate[i] = 'r:' .. lane
  end
  local paused = fetch_all('SMISMEMBER', k_paused, lanes)
  local blocked = fetch_all('ZMSCORE', k_blocked, members)
  local waits = some_limits and fetch_all('ZMSCORE', k_blocked, out_of_rate) or {}
  local ceilings = ceilings_of(lanes)
  local active = read_counts(fetch_all('HMGET', k_gactive, lanes), #lanes)
  for i = 1, #lanes do
    open[i] = paused[i] == 0 and not blocked[i] and not waits[i] and active[i] < ceilings[i]
  end
  if some_limits then
    close_without_credit(lanes, open)
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
  local tags, pending = fetch_all('ZMSCORE', k_ring, lanes), have_pending(lanes)
  local with_work, tags_of_work = {}, {}
  local join, leave, owe = {}, {}, {}
  local function go_out(lane, tag)
    if tag then
      leave[#leave + 1] = lane
      owe[#owe + 1] = tag
      owe[#owe + 1] = lane
    end
  end
  for i, lane in ipairs(lanes) do
    if pending[i] then
      with_work[#with_work + 1] = lane
      tags_of_work[#with_work] = tags[i]
    else
      go_out(lane, tags[i])
    end
  end
  local open = #with_work > 0 and are_open(with_work) or {}
  for i, lane in ipairs(with_work) do
    if open[i] then
      if not tags_of_work[i] then
        join[#join + 1] = lane
      end
      wake()
    else
      go_out(lane, tags_of_work[i])
    end
  end
  join_ring(join)
  call_all('ZREM', k_ring, leave)
  call_all('ZADD', k_owed, owe)
end
