#!lua flags=no-writes
-- include: behind sequence_name sequence_row sorted_scan
-- args: lane cursor limit looks
-- resend: yes
-- A page of the sequences, of a lane or ('') of all lanes: those that are out first.
-- cursor: {} at the start; else {part, and where in it to go on}.
-- Gives at most `limit` and looks at no more than `looks` names, so a page may be empty and not the last.
-- Each sequence comes once, unless it changes between pages.
-- Reply: cursor ({} after the last page), rows (see sequence_row)
--
-- Parts of a lane: out (its sequences with waiting jobs that may not be claimed), held and dead (those
-- with nothing waiting that are in flight, or that a dead job stops), ready.
-- Parts of all lanes: held, blocked, ready.
local CHUNK_SIZE = 100
local parts = lane == '' and { 'held', 'blocked', 'ready' } or { 'out', 'held', 'dead', 'ready' }
local part, a, b, c, d = unpack(cursor)
part, a, b, c, d = part or parts[1], a or '', b or '', c or '', d or ''
local rows, looked = {}, 0

local function is_full()
  return #rows >= limit or looked >= looks
end

local function add(name_lane, key)
  local row = name_lane and sequence_row(name_lane, key)
  rows[#rows + 1] = row or nil
end

local function is_out(key)
  return redis.call('ZSCORE', k_out(lane), key)
end

-- Walks a sorted set from (a, b) on, at first from the score `from` ('' all); stops where the page is full.
local function walk(key, from, visit)
  repeat
    local page = page_behind(key, a ~= '' and a or from, (a ~= '' and b) or (from ~= '' and ''), CHUNK_SIZE)
    for i = 1, #page, 2 do
      b, a = page[i], page[i + 1]
      looked = looked + 1
      visit(b)
      if is_full() then
        return false
      end
    end
  until #page < 2 * CHUNK_SIZE
  return true
end

local function visit_held(sequence)
  local name_lane, key = split_sequence(sequence)
  if lane == '' or (name_lane == lane and not is_out(key)) then
    add(name_lane, key)
  end
end

-- Each is told once: one that is held was told before, and one with both blocks at its `h:`.
local function visit_blocked(member)
  local kind, sequence = member:sub(1, 2), member:sub(3)
  if kind ~= 'h:' and kind ~= 's:' or redis.call('HEXISTS', k_held, sequence) == 1 then
    return
  end
  if kind == 'h:' or not redis.call('ZSCORE', k_blocked, 'h:' .. sequence) then
    local name_lane, key = split_sequence(sequence)
    if lane == '' or (name_lane == lane and not is_out(key)) then
      add(name_lane, key)
    end
  end
end

local function walk_held()
  repeat
    local names, _, after = scan_sorted('HSCAN', k_held, a ~= '' and a or '0', b ~= '' and b, 2)
    for _, sequence in ipairs(names) do
      b = sequence
      looked = looked + 1
      visit_held(sequence)
      if is_full() then
        return false
      end
    end
    a, b = after, ''
  until a == '0'
  return true
end

-- The sequences with a token in a lane's pending, from (c, d) on.
local function walk_ready(of)
  repeat
    local page = page_behind(k_pending(of), c, c ~= '' and d, CHUNK_SIZE)
    for i = 1, #page, 2 do
      d, c = page[i], page[i + 1]
      looked = looked + 1
      if d:byte(1) == 33 then
        add(of, d:sub(2))
      end
      if is_full() then
        return false
      end
    end
  until #page < 2 * CHUNK_SIZE
  c, d = '', ''
  return true
end

local function walk_ready_of_all()
  if b ~= '' and c ~= '' and not walk_ready(b) then
    return false
  end
  repeat
    local lanes, _, after = scan_sorted('HSCAN', k_gwaiting, a ~= '' and a or '0', b ~= '' and b, 2)
    for _, name in ipairs(lanes) do
      b = name
      looked = looked + 1
      if not walk_ready(name) or is_full() then
        return false
      end
    end
    a, b = after, ''
  until a == '0'
  return true
end

local walks = {
  out = function()
    return walk(k_out(lane), '', function(key)
      add(lane, key)
    end)
  end,
  held = walk_held,
  blocked = function()
    return walk(k_blocked, '', visit_blocked)
  end,
  dead = function()
    return walk(k_blocked, '+inf', visit_blocked)
  end,
  ready = function()
    if lane == '' then
      return walk_ready_of_all()
    end
    return walk_ready(lane)
  end,
}

local begun = false
for _, name in ipairs(parts) do
  begun = begun or name == part
  if begun then
    part = name
    if not walks[name]() then
      return { { part, a, b, c, d }, rows }
    end
    a, b, c, d = '', '', '', ''
  end
end
return { {}, rows }
