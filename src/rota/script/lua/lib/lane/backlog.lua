-- include: limits lists
-- exports: backlogs_of
-- How many jobs may wait and be delayed in lanes: their own limit, else their template's, else none.
-- Apart from the other limits, which nothing that stores jobs pays for.
local function backlogs_of(lanes)
  local found = {}
  local own, named = fetch_some(k_gmax, lanes), fetch_some(k_gtemplate, lanes)
  for i = 1, #lanes do
    local text = own[i] or (named[i] and template_of(named[i]).backlog)
    found[i] = tonumber(text or nil) or math.huge
  end
  return found
end
