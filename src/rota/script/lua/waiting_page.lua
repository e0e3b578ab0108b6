#!lua flags=no-writes
-- include: behind clock job_rows sequence_name
-- args: lane task cursor limit looks
-- resend: yes
-- A page of a lane's waiting jobs, those that may be claimed first: the entries that are pending in their
-- order, then the sequences that are out, a sequence's jobs together where its head stands. task ''
-- means any.
-- cursor: {} at the start; else {index, score, entry, score, job}: pending · out, the entry, and the
-- job in its sequence behind which to go on ('' where all of the entry was looked at).
-- Gives at most `limit` and looks at no more than `looks`, so a page may be empty and not the last.
-- Reply: cursor ({} after the last page), rows (see job_rows), now
local CHUNK_SIZE = 100
local index, at, entry, job_at, job = unpack(cursor)
index, at, entry, job_at, job = index or 'pending', at or '', entry or '', job_at or '', job or ''

local function here()
  return { { index, at, entry, job_at, job }, job_rows, now }
end

-- Looks at the jobs of the entry's sequence; says whether there is room left.
local function look_at_sequence()
  local sequence = k_sequence(sequence_of(lane, index == 'out' and entry or key_in(entry)))
  repeat
    local page = page_behind(sequence, job_at, job ~= '' and job, CHUNK_SIZE)
    for i = 1, #page, 2 do
      job, job_at = page[i], page[i + 1]
      look_at_job(job, '', task, 0, '')
      if page_is_full(limit, looks) then
        return false
      end
    end
  until #page < 2 * CHUNK_SIZE
  job, job_at = '', ''
  return true
end

local function look_at_entry()
  if index == 'out' or key_in(entry) then
    return look_at_sequence()
  end
  look_at_job(entry, '', task, 0, '')
  return not page_is_full(limit, looks)
end

if job ~= '' and not look_at_sequence() then
  return here()
end
while index ~= 'end' do
  local key = index == 'pending' and k_pending(lane) or k_out(lane)
  local page = page_behind(key, at, at ~= '' and entry, CHUNK_SIZE)
  for i = 1, #page, 2 do
    entry, at = page[i], page[i + 1]
    if not look_at_entry() then
      return here()
    end
  end
  if #page < 2 * CHUNK_SIZE then
    index, at, entry = index == 'pending' and 'out' or 'end', '', ''
  end
end
return { {}, job_rows, now }
