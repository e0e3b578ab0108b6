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
local part = cursor[1] or parts[1]
local place = { cursor[2] or '', cursor[3] or '', cursor[4] or '', cursor[5] or '' }
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

-- Walks a sorted set on from the score and member at place[at], at first from the score `from` ('' all);
-- stops where the page is full, and says whether it came to the end.
local function walk(key, at, from, visit)
  repeat
    local score, member = place[at], place[at + 1]
    if score == '' then
      score, member = from, from ~= '' and ''
    end
    local page = page_behind(key, score, member, CHUNK_SIZE)
    for i = 1, #page, 2 do
      place[at], place[at + 1] = page[i + 1], page[i]
      looked = looked + 1
      visit(page[i])
      if is_full() then
        return false
      end
    end
  until #page < 2 * CHUNK_SIZE
  place[at], place[at + 1] = '', ''
  return true
end

-- Walks the fields of a hash, on from the cursor and field that the place begins with; likewise.
local function scan(key, visit)
  repeat
    local at, behind = place[1] ~= '' and place[1] or '0', place[2] ~= '' and place[2]
    local names, _, after = scan_sorted('HSCAN', key, at, behind, 2)
    for _, name in ipairs(names) do
      place[2] = name
      looked = looked + 1
      if visit(name) == false or is_full() then
        return false
      end
    end
    place[1], place[2] = after, ''
  until after == '0'
  return true
end

-- Adds a sequence by its name, where it is of the lane and was not told as one that is out.
local function add_named(sequence)
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
    add_named(sequence)
  end
end

-- The sequences with a token in a lane's pending.
local function walk_ready(of)
  return walk(k_pending(of), 3, '', function(entry)
    local key = key_in(entry)
    if key then
      add(of, key)
    end
  end)
end

local walks = {
  out = function()
    return walk(k_out(lane), 1, '', function(key)
      add(lane, key)
    end)
  end,
  held = function()
    return scan(k_held, add_named)
  end,
  blocked = function()
    return walk(k_blocked, 1, '', visit_blocked)
  end,
  dead = function()
    return walk(k_blocked, 1, '+inf', visit_blocked)
  end,
  ready = function()
    if lane ~= '' then
      return walk_ready(lane)
    end
    -- Where a page ended within a lane, the rest of that comes first.
    return (place[3] == '' or walk_ready(place[2])) and scan(k_gwaiting, walk_ready)
  end,
}

local begun = false
for _, name in ipairs(parts) do
  begun = begun or name == part
  if begun then
    if not walks[name]() then
      return { { name, unpack(place) }, rows }
    end
    place = { '', '', '', '' }
  end
end
return { {}, rows }
