#!lua flags=no-writes
-- include: clock record bytes
-- args: after_at after_id limit lane task
-- resend: yes
-- A page of dead jobs, oldest first, after (after_at, after_id); lane and task '' mean any.
-- Looks at no more than `limit` jobs, so a page may be empty and yet not the last.
-- Reply: at, id to go on from ('' after the last page), rows {id, at, record, attempts, deaths,
--   error}, now

-- The rank behind (at, id), whether that job is still there or not: by halves among those that
-- died in the same millisecond, which stand in the order of their ids.
local function rank_behind(at, id)
  local low = redis.call('ZCOUNT', k_dead, '-inf', '(' .. at)
  local high = low + redis.call('ZCOUNT', k_dead, at, at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes_by_bytes(id, redis.call('ZRANGE', k_dead, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local start = after_id == '' and 0 or rank_behind(after_at, after_id)
local page = redis.call('ZRANGE', k_dead, start, start + limit - 1, 'WITHSCORES')
local rows = {}
for i = 1, #page, 2 do
  local id = page[i]
  local _, header = read_head(id)
  header = header or {}
  if (lane == '' or header.lane == lane) and (task == '' or header.task == task) then
    rows[#rows + 1] = {
      id,
      tonumber(page[i + 1]),
      redis.call('GET', k_job(id)) or '',
      tonumber(redis.call('HGET', k_attempts, id) or 0),
      tonumber(redis.call('HGET', k_deaths, id) or 0),
      redis.call('HGET', k_errors, id) or '',
    }
  end
end
if #page < 2 * limit then
  return { '', '', rows, now }
end
return { page[#page], page[#page - 1], rows, now }
