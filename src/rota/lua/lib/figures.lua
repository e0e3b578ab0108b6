-- What lanes were given, minute by minute: served jobs, how long these had waited, in ms, since they
-- were first available, and what they were charged beyond 1 each. Field '' sums up the lanes.
local MINUTE, FIGURES_KEPT = 60000, 180000

local function minute_text(back)
  return string.format('%.0f', math.floor(now / MINUTE) - back)
end

-- sums: one of each of `names`, the first of which is ''. What is written first in a minute ends by itself.
-- '' is padded: one field of over 64 bytes makes a hash a table from the start.
local function add_figures(key, names, sums)
  local before, set = fetch_all('HMGET', key, names), {}
  for i, name in ipairs(names) do
    set[2 * i - 1] = name
    set[2 * i] = (before[i] or 0) + sums[i]
  end
  set[2] = string.format('%66.17g', set[2])
  call_all('HSET', key, set)
  if not before[1] then
    redis.call('PEXPIRE', key, FIGURES_KEPT)
  end
end
