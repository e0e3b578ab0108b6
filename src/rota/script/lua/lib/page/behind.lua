-- include: bytes
-- exports: page_behind
-- The rank in a sorted set behind (score, member), whether that member is still there or not: by halves
-- among those of the same score, which stand in the order of their names.
local function rank_behind(key, score, member)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', key, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes_by_bytes(member, redis.call('ZRANGE', key, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The next `count` members and scores behind that place; from the start where `member` is false.
local function page_behind(key, score, member, count)
  local start = member and rank_behind(key, score, member) or 0
  return redis.call('ZRANGE', key, start, start + count - 1, 'WITHSCORES')
end
