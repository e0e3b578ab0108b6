#!lua flags=no-writes
-- include: record
-- args: ids
-- resend: yes
-- The tasks of jobs, read without their payloads.
-- Reply: per id its task, '' where its record is missing or cannot be read
local tasks = {}
for i, id in ipairs(ids) do
  local _, header = read_head(id)
  tasks[i] = text_in(header, 'task') or ''
end
return tasks
