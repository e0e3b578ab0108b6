-- include: record
-- exports: literal_of name_in open_record record_text
-- A record's header line, taken apart where a job changes its lane or its priority:
--   {"task":"…","lane":"…"[,"key":"…"][,"priority":<int>]<the rest>
-- What is not changed stays to the byte: encoded anew, a number would lose digits.

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
