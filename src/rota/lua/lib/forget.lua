-- Deletes jobs for good: records and counts of failures.
local function forget(ids)
  local records = {}
  for i = 1, #ids do
    records[i] = k_job(ids[i])
  end
  for first = 1, #records, CHUNK do
    redis.call('DEL', unpack(records, first, math.min(first + CHUNK - 1, #records)))
  end
  if redis.call('EXISTS', k_attempts, k_deaths, k_errors, k_cancels, k_costs) > 0 then
    call_all('HDEL', k_costs, ids)
    call_all('HDEL', k_attempts, ids)
    call_all('HDEL', k_deaths, ids)
    call_all('HDEL', k_errors, ids)
    call_all('HDEL', k_cancels, ids)
  end
end
