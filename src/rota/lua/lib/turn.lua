-- Joining and leaving the rotation. A lane that comes back keeps the tag it left with unless
-- that lies behind the rotation; so an idle past earns nothing and leaving costs nothing.
local function rotation()
  return tonumber(redis.call('GET', k_vt) or 0)
end

local function joining_tag(lane)
  local owed = redis.call('ZSCORE', k_owed, lane)
  local vt = rotation()
  if owed then
    redis.call('ZREM', k_owed, lane)
    if tonumber(owed) >= vt then
      return owed
    end
  end
  return number_text(vt + 1 / weight_of(lane))
end
