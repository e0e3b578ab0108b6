#!lua flags=no-writes
-- args: pattern cursor limit
-- resend: yes
-- A page of the keys below the queue's root that match `pattern`, a glob.
-- Reply: cursor ('0' at the end), names below the root, their types, their lives (ms; -1 for good)
local literal = root:gsub('[%*%?%[%]\\]', '\\%0')
local page = redis.call('SCAN', cursor, 'MATCH', literal .. pattern, 'COUNT', limit)
local names, types, lives = {}, {}, {}
for i, key in ipairs(page[2]) do
  names[i] = key:sub(#root + 1)
  types[i] = redis.call('TYPE', key).ok
  lives[i] = redis.call('PTTL', key)
end
return { page[1], names, types, lives }
