-- include: lists
-- exports: check_notes forget
-- Deletes jobs for good: records and counts of failures.
local NOTES = { k_attempts, k_deaths, k_errors, k_cancels, k_costs, k_releases }
local asked, noted = false, {} -- whether check_notes was; those that exist

-- Before the first write, and where what is noted of a job is not forgotten in the same script.
local function check_notes()
  asked = true
  if redis.call('EXISTS', unpack(NOTES)) > 0 then
    for _, key in ipairs(NOTES) do
      if redis.call('HLEN', key) > 0 then
        noted[#noted + 1] = key
      end
    end
  end
end

local function forget(ids)
  local records = {}
  for i = 1, #ids do
    records[i] = k_job(ids[i])
  end
  for first = 1, #records, CHUNK do
    redis.call('DEL', unpack(records, first, math.min(first + CHUNK - 1, #records)))
  end
  if asked or redis.call('EXISTS', unpack(NOTES)) > 0 then
    for _, key in ipairs(asked and noted or NOTES) do
      call_all('HDEL', key, ids)
    end
  end
end
