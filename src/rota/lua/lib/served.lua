-- Counts what a claim hands out. records: those of all jobs of `taken`, in order.
local function count_served(taken, records)
  local names, jobs, waited, beyond = { '' }, { [''] = 0 }, { [''] = 0 }, { [''] = 0 }
  local n, usual = 0, true
  for _, entry in ipairs(taken) do
    local name, first, wait = entry.lane.name, n, 0
    if not jobs[name] then
      names[#names + 1] = name
      jobs[name], waited[name], beyond[name] = 0, 0, 0
    end
    for _ = 1, #entry.jobs, 2 do
      n = n + 1
      local available = records[n] and tonumber(records[n]:sub(19, 31))
      wait = wait + (available and math.max(0, now - available) or 0)
    end
    local more = entry.charged - (n - first)
    jobs[name] = jobs[name] + n - first
    waited[name], waited[''] = waited[name] + wait, waited[''] + wait
    beyond[name], beyond[''] = beyond[name] + more, beyond[''] + more
    usual = usual and more == 0
  end
  jobs[''] = n
  add_figures(k_served(minute_text(0)), names, jobs)
  add_figures(k_waited(minute_text(0)), names, waited)
  if not usual then
    add_figures(k_charged(minute_text(0)), names, beyond)
  end
end
