-- include: clock entries figures record ring_lanes
-- exports: count_served
-- Counts what a claim hands out.

-- How long a job has waited since it was first available, by the text of that in its record: jobs
-- that were enqueued together have the same.
local waits_since = {}

local function wait_since(text)
  local available = tonumber(text)
  local wait = available and available < now and now - available or 0
  waits_since[text] = wait
  return wait
end

-- records: those of all jobs taken, in order.
local function count_served(count, records)
  local served, given, waits, extra = {}, {}, {}, {}
  local n, waited, over = 0, 0, 0
  for entry = 1, count do
    local lane, jobs, wait = entry_lanes[entry], entry_sizes[entry], 0
    for _ = 1, jobs do
      n = n + 1
      local record = records[n]
      if record then
        local since = record:sub(AVAILABLE_FIRST, AVAILABLE_LAST)
        wait = wait + (waits_since[since] or wait_since(since))
      end
    end
    waited = waited + wait
    local before = given[lane]
    if before then
      given[lane], waits[lane] = before + jobs, waits[lane] + wait
    else
      served[#served + 1] = lane
      given[lane], waits[lane] = jobs, wait
    end
    local more = entry_extra[entry]
    if more then
      extra[lane], over = (extra[lane] or 0) + more, over + more
    end
  end
  local lanes, jobs, times, charges = { '' }, { n }, { waited }, { over }
  for i = 1, #served do
    local lane = served[i]
    lanes[i + 1], jobs[i + 1], times[i + 1] = names[lane], given[lane], waits[lane]
    if extra[lane] then
      charges[i + 1] = extra[lane]
    end
  end
  add_figures(lanes, jobs, times, charges)
end
