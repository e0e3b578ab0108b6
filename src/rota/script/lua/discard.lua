#!lua flags=allow-oom
-- include: clock bell lists attempt record sequence_name limits out_until rate charge turn reconcile offer
-- include: changes forget dead_job
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
