-- include: clock
-- exports: write_stand_in PLACE_WIDTH PREFIX_WIDTH AVAILABLE_FIRST AVAILABLE_LAST PRIORITY_STEP place_text
-- exports: prefix_end record_prefix parse_prefix read_bytes read_prefix read_head text_in
-- exports: read_whole
-- A job's record: three lines, and the payload. What stands behind the prefix is written by
-- values/jobspec.py; values/model.py reads it all.
--   +0000000000000042,1700000000000,1700000000000     the prefix, of fixed width, written here
--   {"task":…,"lane":…[,"key":…][,"priority":…]…}      the header: JSON, in this order, which rewrite.lua
--                                                      goes by
--                                                      what users attach to the job: nothing yet
-- In the prefix: place (its score); first available and enqueued, both in server milliseconds.
-- A job that was never available yet (delayed at enqueue) has available 0 and, as place, the
-- counter's number: what orders jobs that fall due in the same millisecond.
-- All this holds in every version; the header names its own as "v", where that is not 1. A reader passes
-- over fields of the header, and a third line, that it does not know. What it must not pass over makes
-- a version, which only records that have it name: who does not know that gives the job back. Thus
-- "traits":true, of a job whose id has an entry in a hash of that name, will be of version 2.
local PLACE_WIDTH = 17
local PREFIX_WIDTH = 46
local AVAILABLE_FIRST, AVAILABLE_LAST = 19, 31
local HEAD_USUAL, HEAD_MAX = 512, 16384
local PRIORITY_STEP = 4398046511104 -- 2^42 places between two priorities

-- Printed as a whole number where those have 64 bits: printing a fraction's takes three times as long.
local PLACE = string.format('%d', 9007199254740991) == '9007199254740991' and '%+017d' or '%+017.0f'

local function place_text(score)
  return string.format(PLACE, score)
end

-- The prefix of jobs stored now, without the place.
local function prefix_end(available)
  return string.format(',%013.0f,%013.0f\n', available, now)
end

local function record_prefix(place, available, enqueued)
  return string.format('%+017.0f,%013.0f,%013.0f\n', place, available, enqueued)
end

-- For a job whose record is missing or cannot be read: `payload` are the bytes that were found.
local function write_stand_in(id, place, lane, key, payload)
  local header = '{"task":"","lane":' .. cjson.encode(lane) .. (key and ',"key":' .. cjson.encode(key) or '') .. '}'
  redis.call('SET', k_job(id), record_prefix(place, now, now) .. header .. '\n\n' .. payload)
end

local function parse_prefix(text)
  local place, available, enqueued = text:match('^([+-]%d+),(%d+),(%d+)\n')
  if place then
    return { place = tonumber(place), available = tonumber(available), enqueued = tonumber(enqueued) }
  end
  return nil
end

-- The record's bytes up to number `last`, from 0, -1 for all; none where its key is damaged.
local function read_bytes(id, last)
  local text = redis.pcall('GETRANGE', k_job(id), 0, last)
  return type(text) == 'string' and text or ''
end

local function read_prefix(id)
  return parse_prefix(read_bytes(id, PREFIX_WIDTH - 1))
end

-- Prefix and header; nil where the record is missing, or either cannot be read.
local function read_head(id)
  local text = read_bytes(id, HEAD_USUAL - 1)
  if #text == HEAD_USUAL and not text:find('\n', PREFIX_WIDTH + 1, true) then
    text = read_bytes(id, HEAD_MAX)
  end
  local stop = text:find('\n', PREFIX_WIDTH + 1, true)
  if not stop then
    return nil, nil
  end
  local ok, header = pcall(cjson.decode, text:sub(PREFIX_WIDTH + 1, stop - 1))
  if ok and type(header) == 'table' then
    return parse_prefix(text), header
  end
  return parse_prefix(text), nil
end

-- What a header says, where that is a text.
local function text_in(header, field)
  local value = header and header[field]
  return type(value) == 'string' and value or nil
end

-- Prefix and header of a record from which the job's place can be told; nil where it cannot.
local function read_whole(id)
  local prefix, header = read_head(id)
  if not prefix or not header or type(header.lane) ~= 'string' or header.lane == '' then
    return nil, nil
  elseif header.key ~= nil and type(header.key) ~= 'string' then
    return nil, nil
  end
  return prefix, header
end
