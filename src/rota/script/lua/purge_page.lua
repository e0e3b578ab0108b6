#!lua flags=no-writes
-- include: record
-- args: cursor limit
-- resend: yes
-- A page of the lanes with something to purge: those with delayed jobs first, as such a job may fall due
-- between two pages, then those with waiting ones. It scans and goes by no ranks, so what is deleted between
-- two pages hides nothing: each lane that has what it had at the start comes, some of them twice. What
-- was enqueued with a delay after the start is passed over, so that producers do not keep the walk going.
-- cursor: '' at the start, then what the last reply gave; a reply with '' is the last page.
-- Reply: cursor, lanes
local kind, at, last = cursor:match('^(%l+) (%d+) (%d+)$')
kind, at = kind or 'delayed', at or '0'
last = last or redis.call('GET', k_seq) or '0' -- the number of the last job at the start
local lanes, seen = {}, {}

local function add(lane)
  if lane and not seen[lane] then
    seen[lane] = true
    lanes[#lanes + 1] = lane
  end
end

local function is_new(member)
  local place = tonumber(member:sub(1, PLACE_WIDTH))
  return place and place % PRIORITY_STEP > tonumber(last)
end

local page
if kind == 'delayed' then
  page = redis.call('ZSCAN', k_scheduled, at, 'COUNT', limit)
  for i = 1, #page[2], 2 do
    local member = page[2][i]
    if not is_new(member) then
      local _, header = read_whole(member:sub(PLACE_WIDTH + 1))
      add(header and header.lane)
    end
  end
else
  page = redis.call('HSCAN', k_gwaiting, at, 'COUNT', limit)
  for i = 1, #page[2], 2 do
    add(page[2][i])
  end
end
if page[1] ~= '0' then
  return { kind .. ' ' .. page[1] .. ' ' .. last, lanes }
end
return { kind == 'delayed' and 'waiting 0 ' .. last or '', lanes }
