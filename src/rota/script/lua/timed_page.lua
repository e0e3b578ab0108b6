#!lua flags=no-writes
-- include: behind job_rows record
-- args: kind after_at after_member lane task limit looks
-- resend: yes
-- A page of delayed jobs by due time, or of dead jobs by when they died, behind (after_at,
-- after_member), '' at the start; lane and task '' mean any. kind: delayed · dead
-- Gives at most `limit` and looks at no more than `looks`, so a page may be empty and not the last.
-- Reply: at, member to go on from ('' after the last page), rows (see job_rows)
local CHUNK_SIZE = 100
local is_dead = kind == 'dead'
local key = is_dead and k_dead or lane ~= '' and k_delayed(lane) or k_scheduled
local at, member = after_at, after_member
repeat
  local page = page_behind(key, at, member ~= '' and member, CHUNK_SIZE)
  for i = 1, #page, 2 do
    member, at = page[i], page[i + 1]
    local id = is_dead and member or member:sub(PLACE_WIDTH + 1)
    look_at_job(id, is_dead and lane or '', task, tonumber(at), '')
    if page_is_full(limit, looks) then
      return { at, member, job_rows }
    end
  end
until #page < 2 * CHUNK_SIZE
return { '', '', job_rows }
