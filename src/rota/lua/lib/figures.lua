-- What lanes were given, minute by minute: served jobs, how long these had waited, in ms, since they
-- were first available, and what they were charged beyond 1 each. Field '' sums up the lanes.
local MINUTE, FIGURES_KEPT = 60000, 180000

local function minute_text(back)
  return string.format('%.0f', math.floor(now / MINUTE) - back)
end

-- sums: one of each of `names`, the first of which is ''. What is written first in a minute ends by itself.
-- '' is padded: one field of over 64 bytes makes a hash a table from the start.
local function add_figures(key, names, sums)
  local sums_now = fetch_all('HMGET', key, names)
  local is_new = not sums_now[1]
  for i = 1, #names do
    sums_now[i] = (sums_now[i] or 0) + sums[i]
  end
  sums_now[1] = string.format('%66.17g', sums_now[1])
  call_pairs('HSET', key, names, sums_now)
  if is_new then
    redis.call('PEXPIRE', key, FIGURES_KEPT)
  end
end
