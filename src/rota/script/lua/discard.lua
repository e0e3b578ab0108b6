#!lua flags=allow-oom
-- include: bell changes dead_job
-- args: ids
-- resend: receipt
-- Deletes dead jobs for good; a sequence that one of them held goes on.
-- Reply: one word per id: ok · none (no such dead job)
local answers = {}
for i, id in ipairs(ids) do
  answers[i] = discard_dead(id) and 'ok' or 'none'
end
write_changes()
ring_bell()
return answers
