-- include: attempt lists sequence_name
-- exports: offer
-- Places sequences, each by its lane and its key: the token in the lane's `pending` at the head's score
-- where it has waiting jobs and is neither held nor blocked; in `out` where it has jobs that may not be
-- claimed now. Asks once for all what can be asked once. One whose jobs cannot be looked at stays as it is.
local function offer(lanes, keys)
  local names, blocks = {}, {}
  for i = 1, #lanes do
    local name = sequence_of(lanes[i], keys[i])
    names[i], blocks[2 * i - 1], blocks[2 * i] = name, 's:' .. name, 'h:' .. name
  end
  local held, blocked = fetch_all('HMGET', k_held, names), fetch_all('ZMSCORE', k_blocked, blocks)
  for i = 1, #lanes do
    local lane, key = lanes[i], keys[i]
    local head = attempt('ZRANGE', k_sequence(names[i]), 0, 0, 'WITHSCORES')
    if head and #head == 0 then
      attempt('ZREM', k_pending(lane), '!' .. key)
      attempt('ZREM', k_out(lane), key)
    elseif head and (held[i] or blocked[2 * i - 1] or blocked[2 * i]) then
      attempt('ZREM', k_pending(lane), '!' .. key)
      attempt('ZADD', k_out(lane), head[2], key)
    elseif head then
      attempt('ZREM', k_out(lane), key)
      attempt('ZADD', k_pending(lane), head[2], '!' .. key)
    end
  end
end
