-- exports: DELIVERY_LANE delivery_text read_delivery number_of_delivery is_own jobs_among
-- What a consumer holds: one field of its hash per job, all that giving back needs. In Python it is read
-- by explain/explainer.py.
--   <delivery>,<score>,<mark>,<home>     '7,42,-,4:docs' · '7,43,u,4:docs:chapter'
-- delivery: the number of the claim that took it. score: its place. mark: '-' runs by rule (an unordered
-- job, or the first of a sequence, counts as started); 'u' must not be run before its start was accepted
-- (it has a death behind it). home: of an unordered job what lane_home gives, else its sequence's name.
-- Fields of the consumer's own begin with '!', which no job id does.
local DELIVERY = '^(%d+),(%-?%d+),(.),(%d+):()'
-- Number, size of the lane, where it begins: for who reads many.
local DELIVERY_LANE = '^(%d+),[^,]+,.,(%d+):()'

local function delivery_text(delivery, score, mark, home)
  return delivery .. ',' .. score .. ',' .. mark .. ',' .. home
end

-- nil where it cannot be read.
local function read_delivery(text)
  local delivery, score, mark, size, first = text:match(DELIVERY)
  local lane_end = size and first + size - 1
  if not size or lane_end > #text then
    return nil
  end
  local home = text:sub(first - #size - 1)
  local held = { delivery = delivery, score = score, mark = mark, home = home, lane = text:sub(first, lane_end) }
  if lane_end < #text then
    held.key = text:sub(lane_end + 2)
    held.sequence = home
  end
  return held
end

local function number_of_delivery(text)
  return text:match('^%d+')
end

local function is_own(field)
  return field:byte(1) == 33
end

-- The jobs in a page of a consumer's hash, and their deliveries.
local function jobs_among(fields)
  local ids, texts = {}, {}
  for i = 1, #fields, 2 do
    if not is_own(fields[i]) then
      ids[#ids + 1], texts[#ids + 1] = fields[i], fields[i + 1]
    end
  end
  return ids, texts
end
