-- Counts what a claim hands out. records: those of all jobs of `taken`, in order.
local function count_served(taken, records)
  local names, lanes, n, waits, beyond, usual = { '' }, {}, 0, 0, 0, true
  for _, entry in ipairs(taken) do
    local lane, wait = entry.lane, 0
    for _ = 1, #entry.jobs, 2 do
      n = n + 1
      local available = records[n] and tonumber(records[n]:sub(19, 31))
      if available and available < now then
        wait = wait + now - available
      end
    end
    if not lane.given then
      names[#names + 1] = lane.name
      lanes[#lanes + 1] = lane
      lane.given, lane.waits, lane.beyond = 0, 0, 0
    end
    local jobs = #entry.jobs / 2
    lane.given = lane.given + jobs
    lane.waits = lane.waits + wait
    waits = waits + wait
    if entry.charged ~= jobs then
      lane.beyond = lane.beyond + entry.charged - jobs
      beyond = beyond + entry.charged - jobs
      usual = false
    end
  end
  local jobs, waited, charged = { n }, { waits }, { beyond }
  for i, lane in ipairs(lanes) do
    jobs[i + 1], waited[i + 1], charged[i + 1] = lane.given, lane.waits, lane.beyond
  end
  local minute = minute_text(0)
  add_figures(k_served(minute), names, jobs)
  add_figures(k_waited(minute), names, waited)
  if not usual then
    add_figures(k_charged(minute), names, charged)
  end
end
