#!lua flags=no-writes
-- include: lists
-- args: consumers
-- resend: yes
-- What consumers were asked.
-- Reply: per consumer quiet · stop, '' nothing
local found = fetch_some(k_orders, consumers)
local words = {}
for i = 1, #consumers do
  words[i] = found[i] or ''
end
return words
