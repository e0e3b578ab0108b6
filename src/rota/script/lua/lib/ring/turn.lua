-- include: charge limits lists
-- exports: rotation turn_to join_ring
-- Joining the rotation. A lane that comes back keeps the tag it left with unless that lies behind
-- the rotation; so an idle past earns nothing and leaving costs nothing.
local vt -- asked once

local function rotation()
  vt = vt or tonumber(redis.call('GET', k_vt) or 0)
  return vt
end

local function turn_to(tag)
  vt = tag
  redis.call('SET', k_vt, number_text(tag))
end

local function join_ring(lanes)
  if #lanes == 0 then
    return
  end
  local owed = fetch_all('ZMSCORE', k_owed, lanes)
  local weights = weights_of(lanes)
  local vt, tags, paid = rotation(), {}, {}
  for i, lane in ipairs(lanes) do
    local cost = some_costs and next_cost(lane) or 1
    local tag = vt + cost / weights[i] -- the server prints numbers with 17 digits
    if owed[i] then
      paid[#paid + 1] = lane
      if tonumber(owed[i]) >= vt then
        tag = owed[i]
      end
    end
    tags[i] = tag
  end
  call_pairs('ZADD', k_ring, tags, lanes)
  call_all('ZREM', k_owed, paid)
end
