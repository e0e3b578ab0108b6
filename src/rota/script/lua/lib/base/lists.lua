-- exports: CHUNK call_all fetch_all call_pairs split_pairs read_counts number_text count_of
-- exports: set_field forget_absent is_absent fetch_some
-- Variadic calls over lists of any length: `unpack` fails from 8,000 values on.
local CHUNK = 4000

local function call_all(command, key, list)
  for first = 1, #list, CHUNK do
    redis.call(command, key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
  end
end

local function fetch_all(command, key, list)
  if #list <= CHUNK then
    return redis.call(command, key, unpack(list))
  end
  local all = {}
  for first = 1, #list, CHUNK do
    local part = redis.call(command, key, unpack(list, first, math.min(first + CHUNK - 1, #list)))
    local size = math.min(CHUNK, #list - first + 1)
    for i = 1, size do
      all[first + i - 1] = part[i]
    end
  end
  return all
end

-- A call with pairs that stand in two lists: scores and members, fields and values. What is handed
-- over is gathered in one list, grown once for the whole script.
local PAIRS, gathered = CHUNK / 2, {}

local function call_pairs(command, key, firsts, seconds)
  for start = 1, #firsts, PAIRS do
    local n = 0
    for i = start, math.min(start + PAIRS - 1, #firsts) do
      gathered[n + 1], gathered[n + 2] = firsts[i], seconds[i]
      n = n + 2
    end
    redis.call(command, key, unpack(gathered, 1, n))
  end
end

-- Two lists of one with pairs: members and scores, fields and values.
local function split_pairs(list)
  local firsts, seconds = {}, {}
  for i = 1, #list, 2 do
    firsts[#firsts + 1], seconds[#firsts + 1] = list[i], list[i + 1]
  end
  return firsts, seconds
end

local function add_nothing(texts, count)
  for i = 1, count do
    local text = texts[i]
    texts[i] = text and text + 0 or 0
  end
end

-- Counts as numbers, in place; one that is absent, or cannot be read, is none.
local function read_counts(texts, count)
  if not pcall(add_nothing, texts, count) then -- to ask `tonumber` each time costs more
    for i = 1, count do
      texts[i] = tonumber(texts[i] or nil) or 0
    end
  end
  return texts
end

-- A number as text, to the last digit.
local function number_text(value)
  return string.format('%.17g', value)
end

-- One count of a hash; likewise 0.
local function count_of(key, field)
  return tonumber(redis.call('HGET', key, field) or nil) or 0
end

-- As settings are changed: '' leaves it as it is, '-' removes it, else it is set.
local function set_field(key, field, value)
  if value == '-' then
    redis.call('HDEL', key, field)
  elseif value ~= '' then
    redis.call('HSET', key, field, value)
  end
end

-- HMGET of a hash that most queues do not have: where it is absent, nothing more is asked.
local absent = {}

local function forget_absent()
  absent = {}
end

local function is_absent(key)
  if absent[key] == nil then
    absent[key] = redis.call('HLEN', key) == 0
  end
  return absent[key]
end

local function fetch_some(key, list)
  return is_absent(key) and {} or fetch_all('HMGET', key, list)
end
