-- include: attempt home limits lists
-- exports: BY_TIME declare_costs charge next_cost
-- state: some_costs
-- What turns cost. A job is charged 1 unless it says otherwise in `costs`, which most queues do not
-- have: a number, or 't<charged>,<task>' of a job charged by the time it runs. That is not known when
-- it is claimed: it is charged what jobs of its task took lately, and the rest at its end (`ran`).
-- A lane's tag grows by cost / weight, one addition per job, as many at once would round.
-- `costs` in config says whether any job ever declared one: from then on a turn may cost less than the
-- usual 1, and no lane's tag is forgotten for that.
local BY_TIME = '^t([^,]*),(.+)$'
local some_costs = had_costs -- only read elsewhere

local function declare_costs()
  redis.call('HSET', k_config, 'costs', 1)
  some_costs = true
end

-- The charge, and the task whose time it is. What cannot be read is charged the usual 1.
local function cost_of(id)
  local text = some_costs and attempt('HGET', k_costs, id)
  if not text then
    return 1
  end
  local _, task = text:match(BY_TIME)
  if task then
    return tonumber(attempt('HGET', k_durations, task) or nil) or 1, task
  end
  return tonumber(text) or 1
end

-- What the jobs from number `first` on cost, each; a cost that goes by the time is noted as charged.
local function charge(ids, first)
  local costs = {}
  for i = first, #ids do
    local cost, task = cost_of(ids[i])
    if task then
      attempt('HSET', k_costs, ids[i], 't' .. number_text(cost) .. ',' .. task)
    end
    costs[#costs + 1] = cost
  end
  return costs
end

-- What the lane's next job will be charged: how far behind the rotation a lane joins that has no
-- tag of its own.
local function next_cost(lane)
  local id = first_job(lane, first_in(k_pending(lane)))
  return (id and cost_of(id)) or 1
end
