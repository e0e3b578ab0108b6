#!lua flags=allow-oom
-- include: attempt bell blocked changes forget holding lists record sequence_name
-- args: lane limit total
-- resend: receipt
-- Deletes a lane's waiting and delayed jobs, about `limit` a call; what is in flight goes on. `total`
-- counts them: purged or cancelled. What of it is damaged is passed over.
-- Reply: more (1: call again), deleted
local deleted = 0

local function drop(ids)
  forget(ids)
  deleted = deleted + #ids
end

-- A head whose delay blocks its sequence takes the block with it.
local function drop_sequence(key)
  local sequence = sequence_of(lane, key)
  local ids = split_pairs(attempt('ZPOPMIN', k_sequence(sequence), limit - deleted) or {})
  local blocker = redis.call('HGET', k_why, 'h:' .. sequence)
  for _, id in ipairs(ids) do
    if id == blocker then
      unblock('h:' .. sequence)
    end
  end
  end_move(sequence)
  count_waiting(lane, -#ids)
  count_total('waiting', -#ids)
  touch(lane, key)
  drop(ids)
end

-- Tokens stay in `pending` until `offer` finds their sequence empty.
local unordered = {}
for _, entry in ipairs(attempt('ZRANGE', k_pending(lane), 0, limit - 1) or {}) do
  local key = key_in(entry)
  if key then
    if deleted < limit then
      drop_sequence(key)
    end
  elseif deleted + #unordered < limit then
    unordered[#unordered + 1] = entry
  end
end
call_all('ZREM', k_pending(lane), unordered)
count_waiting(lane, -#unordered)
count_total('waiting', -#unordered)
drop(unordered)

for _, key in ipairs(attempt('ZRANGE', k_out(lane), 0, limit - 1) or {}) do
  if deleted < limit then
    drop_sequence(key)
  end
end

local delayed, ids = {}, {}
if deleted < limit then
  delayed = attempt('ZRANGE', k_delayed(lane), 0, limit - deleted - 1) or {}
  for i, member in ipairs(delayed) do
    ids[i] = member:sub(PLACE_WIDTH + 1)
  end
end
call_all('ZREM', k_delayed(lane), delayed)
call_all('ZREM', k_scheduled, delayed)
drop(ids)

count_total(total, deleted)
touch(lane)
write_changes()
ring_bell()
local left = redis.call('HEXISTS', k_gwaiting, lane) + redis.call('EXISTS', k_delayed(lane))
return { left > 0 and deleted > 0 and 1 or 0, deleted }
