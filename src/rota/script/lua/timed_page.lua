#!lua flags=no-writes
-- include: behind clock job_rows record
-- args: kind lane task cursor limit looks
-- resend: yes
-- A page of delayed jobs by due time, or of dead jobs by when they died; lane and task '' mean any.
-- kind: delayed · dead
-- cursor: {} at the start; else {time, member} behind which to go on.
-- Gives at most `limit` and looks at no more than `looks`, so a page may be empty and not the last.
-- Reply: cursor ({} after the last page), rows (see job_rows), now
local CHUNK_SIZE = 100
local is_dead = kind == 'dead'
local key = is_dead and k_dead or lane ~= '' and k_delayed(lane) or k_scheduled
local at, member = unpack(cursor)
repeat
  local page = page_behind(key, at, member, CHUNK_SIZE)
  for i = 1, #page, 2 do
    member, at = page[i], page[i + 1]
    local id = is_dead and member or member:sub(PLACE_WIDTH + 1)
    look_at_job(id, is_dead and lane or '', task, tonumber(at), '')
    if page_is_full(limit, looks) then
      return { { at, member }, job_rows, now }
    end
  end
until #page < 2 * CHUNK_SIZE
return { {}, job_rows, now }
