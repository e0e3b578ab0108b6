-- exports: delivery_text read_delivery
-- What a consumer holds: one field of its hash per job, all that giving back needs.
--   '<delivery>,<score>,<mark>,<bytes of lane>:<lane>[:<key>]'
-- mark: '-' runs by rule (an unordered job, or the first of a sequence, counts as started);
-- 'u' must not be run before its start was accepted (it has a death behind it).
-- One that cannot be read is nil. Fields of the consumer's own begin with '!', which no job id does.
local function delivery_text(delivery, score, mark, home)
  return delivery .. ',' .. score .. ',' .. mark .. ',' .. home
end

local function read_delivery(text)
  local delivery, score, mark, place = text:match('^(%d+),([^,]+),(.),(.*)$')
  local colon = place and place:find(':', 1, true)
  local size = colon and tonumber(place:sub(1, colon - 1))
  if not size or not tonumber(score) then
    return nil
  end
  local lane_end = colon + size
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
