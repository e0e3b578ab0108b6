-- include: clock lists
-- exports: minute_text figures_in read_figures add_figures
-- What lanes were given, minute by minute: jobs claimed, how long these had waited, in ms, since they
-- were first available, what they were charged beyond 1 each. Three doubles a lane, in one field, as
-- every claim adds to those of all its lanes. Field '' sums up the lanes.
local MINUTE, FIGURES_KEPT = 60000, 180000
local DOUBLES, FIGURES_SIZE = '<ddd', 24
local PADDING = string.rep(' ', 48) -- one field of over 64 bytes makes a hash a table from the start

local function minute_text(back)
  return string.format('%.0f', math.floor(now / MINUTE) - back)
end

-- Jobs, waits, charges; nothing where they are absent or damaged.
local function figures_in(text)
  if text and #text >= FIGURES_SIZE then
    local jobs, waits, charges = struct.unpack(DOUBLES, text)
    if math.abs(jobs) + math.abs(waits) + math.abs(charges) < math.huge then -- none is NaN either
      return jobs, waits, charges
    end
  end
end

local function read_figures(text)
  local jobs, waits, charges = figures_in(text)
  return jobs or 0, waits or 0, charges or 0
end

-- Columns of what is added to `lanes`, at most 1,001, the first of which is ''. A minute's figures end by
-- themselves; where their key is damaged, a claim does without them.
local function add_figures(lanes, jobs, waits, charges)
  local key = k_figures(minute_text(0))
  local sums = redis.pcall('HMGET', key, unpack(lanes))
  if sums.err then
    return
  end
  local is_new = not sums[1]
  for i = 1, #lanes do
    local n, waited, charged = read_figures(sums[i])
    sums[i] = struct.pack(DOUBLES, n + jobs[i], waited + waits[i], charged + (charges[i] or 0))
  end
  sums[1] = sums[1] .. PADDING
  call_pairs('HSET', key, lanes, sums)
  if is_new then
    redis.call('PEXPIRE', key, FIGURES_KEPT)
  end
end
