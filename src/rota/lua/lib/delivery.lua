-- What a consumer holds: one field of its hash per job, all that giving back needs.
--   '<delivery>,<score>,<mark>,<bytes of lane>:<lane>[:<key>]'
-- mark: '-' runs by rule (an unordered job, or the first of a sequence, counts as started);
-- 'u' must not be run before its start was accepted (it has a death behind it).
-- Fields of the consumer's own begin with '!', which no job id does.
local function delivery_text(delivery, score, mark, home)
  return delivery .. ',' .. score .. ',' .. mark .. ',' .. home
end

local function read_delivery(text)
  local delivery, score, mark, place = text:match('^(%d+),([^,]+),(.),(.*)$')
  local colon = place:find(':', 1, true)
  local lane_end = colon + tonumber(place:sub(1, colon - 1))
  local held = {
    delivery = delivery,
    score = score,
    mark = mark,
    home = place,
    lane = place:sub(colon + 1, lane_end),
  }
  if #place > lane_end then
    held.key = place:sub(lane_end + 2)
    held.sequence = place
  end
  return held
end
