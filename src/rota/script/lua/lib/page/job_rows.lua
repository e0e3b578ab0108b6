-- include: lists record
-- exports: look_past look_at_job page_is_full
-- state: job_rows
-- Jobs as a list shows them, in bounds: a page looks at so many, and ends with the record that brings
-- it to 2 MiB.
-- fields: id record attempts deaths note time worker
-- time: Unix ms; 0 none. worker: '' none.
local ROW_BYTES_MAX = 2097152
local job_rows = {} -- only read elsewhere
local row_bytes, jobs_looked_at = 0, 0

local function is_of(id, lane, task)
  if lane == '' and task == '' then
    return true
  end
  local _, header = read_head(id)
  return header and (lane == '' or header.lane == lane) and (task == '' or header.task == task)
end

-- Counts what is passed over on the way to jobs.
local function look_past()
  jobs_looked_at = jobs_looked_at + 1
end

-- Adds the job's row where it is of the lane and task; '' means any.
local function look_at_job(id, lane, task, time, worker)
  look_past()
  if is_of(id, lane, task) then
    local record = read_bytes(id, -1)
    row_bytes = row_bytes + #record
    job_rows[#job_rows + 1] = {
      id,
      record,
      count_of(k_attempts, id),
      count_of(k_deaths, id),
      redis.call('HGET', k_errors, id) or '',
      time,
      worker,
    }
  end
end

local function page_is_full(limit, looks)
  return #job_rows >= limit or jobs_looked_at >= looks or row_bytes >= ROW_BYTES_MAX
end
