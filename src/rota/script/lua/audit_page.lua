#!lua flags=no-writes
-- include: audit_lists findings
-- args: kind cursor limit names
-- resend: yes
-- Looks at a page of what there is of one kind, each thing on its own and within this script, so that
-- what is reported is so. kind: a judge's word; names: the keys to go through (or, for kinds that are
-- no collections, the things themselves). cursor: of the first name; limit: about how much work.
-- Reply: names done, cursor of the next, findings, notes, large
--   findings  rows (see findings)
--   notes     lanes, consumers, or jobs in flight with their places, that were met; or what could not
--             be judged: consumers, held, lanes, moved
--   large     lanes too long to be recounted in one script; sequences that no entry names
local index, at = 1, cursor
local collection = collections[kind]
local reader = collection and readers[collection[1]]

local function look_at_page(name)
  local page = redis.pcall(reader[1], collection_key(collection, name), at, 'COUNT', limit)
  if page.err then
    begin_judging(kind, name)
    report('key', kind .. ' ' .. name, 'cannot be looked at: ' .. page.err)
    return '0'
  end
  for i = 1, #page[2], reader[3] do
    judge(kind, name, page[2][i], reader[3] == 2 and page[2][i + 1] or '1')
    add_work(1)
  end
  return page[1]
end

while index <= #names and work < limit do
  add_work(1)
  if collection then
    at = look_at_page(names[index])
  else
    judge(kind, names[index])
    at = '0'
  end
  if at == '0' then
    index = index + 1
  end
end
return { index - 1, at, findings, notes, large }
