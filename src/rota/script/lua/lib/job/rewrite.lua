-- include: record
-- exports: REWRITE_BYTES affords_bytes cut_to_bytes literal_of name_in rewrite
-- state: bytes_used
-- Rewriting many records in one call, within the bounds of a call: jobs, and bytes of records where
-- the queue has large payloads. A record's header (see record.lua) is taken apart as text: what is not
-- changed stays to the byte, as a number encoded anew would lose digits.
local REWRITE_BYTES = 2097152
local large_records = redis.call('HGET', k_config, 'large')
local bytes_used = 0 -- only read elsewhere

-- Whether the call may rewrite this job too.
local function affords_bytes(id)
  if not large_records then
    return true
  end
  local size = redis.call('STRLEN', k_job(id))
  if bytes_used > 0 and bytes_used + size > REWRITE_BYTES then
    return false
  end
  bytes_used = bytes_used + size
  return true
end

-- The part of `ids`, from the front, that the call may rewrite; one at least.
local function cut_to_bytes(ids)
  local kept = {}
  for i, id in ipairs(ids) do
    if not affords_bytes(id) then
      if i > 1 then
        break
      end
      bytes_used = REWRITE_BYTES
    end
    kept[i] = id
  end
  return kept
end

-- The JSON text that begins at `at` in the line behind `mark`, and the position after it.
local function literal_after(line, mark, at)
  local start = at + #mark
  if line:sub(at, start) ~= mark .. '"' then
    return nil, nil
  end
  local stop = line:find('["\\]', start + 1)
  while stop and line:byte(stop) == 92 do
    stop = line:find('["\\]', stop + 2) -- what a backslash stands before is not the end
  end
  if not stop then
    return nil, nil
  end
  return line:sub(start, stop), stop + 1
end

-- Names have no control characters: only two signs are escaped.
local function literal_of(name)
  return '"' .. name:gsub('["\\]', '\\%0') .. '"'
end

local function name_in(literal)
  if not literal:find('\\', 1, true) then
    return literal:sub(2, -2)
  end
  local ok, list = pcall(cjson.decode, '[' .. literal .. ']')
  return ok and list[1] or nil
end

-- The line's literals, its priority as text (nil: none) and its rest; nil where it is of another
-- shape, even where it could be read.
local function split_header(line)
  local task, lane, key, at, after
  task, at = literal_after(line, '{"task":', 1)
  if at then
    lane, at = literal_after(line, ',"lane":', at)
  end
  if not lane then
    return nil
  end
  key, after = literal_after(line, ',"key":', at)
  local rest = line:sub(after or at)
  local priority, behind = rest:match('^,"priority":(%-?%d+)([,}].*)$')
  rest = behind or rest
  if not rest:find('^[,}]') or rest:sub(-1) ~= '}' then
    return nil
  end
  for _, mark in ipairs({ '"task":', '"lane":', '"key":', '"priority":' }) do
    if rest:find(mark, 1, true) then
      return nil
    end
  end
  return { task = task, lane = lane, key = key, priority = priority, rest = rest }
end

local function header_line(header)
  local key = header.key and ',"key":' .. header.key or ''
  local priority = header.priority and ',"priority":' .. header.priority or ''
  return '{"task":' .. header.task .. ',"lane":' .. header.lane .. key .. priority .. header.rest
end

-- A record in parts: `header`, `prefix` as text and `at` as numbers, `tail` from the header's
-- newline on. nil where it is missing or of another shape.
local function open_record(text)
  local stop = text and text:find('\n', PREFIX_WIDTH + 1, true)
  local prefix = stop and text:sub(1, PREFIX_WIDTH)
  local at = prefix and parse_prefix(prefix)
  local header = at and split_header(text:sub(PREFIX_WIDTH + 1, stop - 1))
  if not header then
    return nil
  end
  return { prefix = prefix, at = at, header = header, tail = text:sub(stop) }
end

local function record_text(record)
  return record.prefix .. header_line(record.header) .. record.tail
end

-- Gives each record that can be taken apart to `change(record, i)`, which says whether it changed it,
-- and writes those it did. Returns the set of their indexes, and their number.
local function rewrite(ids, change)
  local names, records, done, count = {}, {}, {}, 0
  for i, id in ipairs(ids) do
    names[i] = k_job(id)
  end
  if #ids == 0 then
    return done, count
  end
  for i, text in ipairs(redis.call('MGET', unpack(names))) do
    local record = open_record(text)
    if record and change(record, i) then
      records[#records + 1] = names[i]
      records[#records + 1] = record_text(record)
      done[i] = true
      count = count + 1
    end
  end
  if count > 0 then
    redis.call('MSET', unpack(records))
  end
  return done, count
end
