#!lua flags=no-writes
-- include: behind clock record
-- args: after_at after_id limit lane task
-- resend: yes
-- A page of dead jobs, oldest first, after (after_at, after_id); lane and task '' mean any.
-- Looks at no more than `limit` jobs, so a page may be empty and yet not the last.
-- Reply: at, id to go on from ('' after the last page), rows {id, at, record, attempts, deaths,
--   error}, now
local page = page_behind(k_dead, after_at, after_id ~= '' and after_id, limit)
local rows = {}
for i = 1, #page, 2 do
  local id = page[i]
  local _, header = read_head(id)
  header = header or {}
  if (lane == '' or header.lane == lane) and (task == '' or header.task == task) then
    rows[#rows + 1] = {
      id,
      tonumber(page[i + 1]),
      read_bytes(id, -1),
      count_of(k_attempts, id),
      count_of(k_deaths, id),
      redis.call('HGET', k_errors, id) or '',
    }
  end
end
if #page < 2 * limit then
  return { '', '', rows, now }
end
return { page[#page], page[#page - 1], rows, now }
