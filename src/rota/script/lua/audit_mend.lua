#!lua flags=allow-oom
-- include: audit_lists audit_places bell changes findings judge_hands
-- args: things
-- resend: receipt
-- checks: itself
-- sealed: goes on
-- Looks again at things in which something was found, and mends what is still wrong, each in the
-- same moment. things: judge, name, member of each, flat.
-- Reply: findings (see audit_page), lanes touched
begin_mending()
local lanes = {}
for i = 1, #things, 3 do
  local kind, name, member = unpack(things, i, i + 2)
  local collection = collections[kind]
  if collection then
    local value = redis.pcall(readers[collection[1]][2], collection_key(collection, name), member)
    if value and value ~= 0 and not (type(value) == 'table' and value.err) then
      judge(kind, name, member, value)
    end
  else
    judge(kind, name)
  end
  for lane in pairs(touched_lanes) do
    lanes[#lanes + 1] = lane
  end
  local ok, trouble = pcall(write_changes)
  if not ok then
    report('key', name .. member, 'cannot be mended: ' .. message_of(trouble))
  end
  forget_hands()
  forget_places()
end
ring_bell()
return { findings, lanes }
