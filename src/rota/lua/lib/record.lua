-- A job's record: a fixed-width prefix written here, a one-line JSON header, the payload.
--   +0000000000000042,1700000000000,1700000000000\n{"task":…}\n<payload>
--   place (its score)  first available enqueued, both in server milliseconds
-- A job that was never available yet (delayed at enqueue) has available 0 and, as place, the
-- counter's number: what orders jobs that fall due in the same millisecond.
local PLACE_WIDTH = 17
local PREFIX_WIDTH = 46
local HEADER_MAX = 16384
local PRIORITY_STEP = 4398046511104 -- 2^42 places between two priorities

local function place_text(score)
  return string.format('%+017.0f', tonumber(score))
end

local function record_prefix(place, available, enqueued)
  return string.format('%+017.0f,%013.0f,%013.0f\n', place, available, enqueued)
end

local function read_prefix(id)
  local text = redis.call('GETRANGE', k_job(id), 0, PREFIX_WIDTH - 1)
  if #text < PREFIX_WIDTH then
    return nil
  end
  return {
    place = tonumber(text:sub(1, 17)),
    available = tonumber(text:sub(19, 31)),
    enqueued = tonumber(text:sub(33, 45)),
  }
end

-- nil where the record is missing or its header cannot be read.
local function read_header(id)
  local text = redis.call('GETRANGE', k_job(id), PREFIX_WIDTH, PREFIX_WIDTH + HEADER_MAX)
  local stop = text:find('\n', 1, true)
  if not stop then
    return nil
  end
  local ok, header = pcall(cjson.decode, text:sub(1, stop - 1))
  if ok and type(header) == 'table' then
    return header
  end
  return nil
end
