-- include: attempt changes charge delivery entries heap holding lists ring_lanes sequence_name
-- exports: take
-- state: some_failed
-- writes: entry_extra
-- Takes entries off the ring's lanes in exact turns: what `want` claims of one would hand out.
-- The first `want` lanes always suffice. Each lane's likely share is popped at once, the turns
-- are then played in memory, and what was popped in excess goes back before anything is written.

-- Plays the turns. Says how many entries it took, of how many lanes it asked, and whether a bound of
-- the call ended it.
local function play_turns(want, prefetch, large)
  -- Lanes stand in the ring's order; the heap holds only those that were served and stay.
  local heap, front, count, full = {}, 1, 0, false
  while count < want and not full do
    local lane, again = front, heap[1]
    if names[front] and not (again and precedes(again, front)) then
      front = front + 1
    elseif again then
      lane = heap_pop(heap)
    else
      break
    end
    local name, score = next_entry(lane, want - count)
    if name then
      local jobs
      jobs, full = open_entry(lane, name, score, count + 1, prefetch, large)
      if jobs > 0 then
        count = count + 1
        local charged = note_turn(lane, jobs, some_costs and charge(ids, job_count - jobs + 1))
        if charged ~= jobs then
          entry_extra[count] = charged - jobs
        end
        -- Back among the others, unless those that stand before it fill the claim.
        local last = front + want - count - 1
        if not (names[last] and precedes(last, lane)) and may_be_served(lane) then
          heap_push(heap, lane)
        end
      elseif not full then
        heap_push(heap, lane)
      end
    end
  end
  put_back_excess()
  return count, front - 1, full
end

-- Whether there are jobs that have failed; known once something was taken.
local some_failed = false

-- What the consumer holds now: into its hash before anything that could fail.
local function record_taken(consumer, delivery, count)
  some_failed = redis.call('EXISTS', k_attempts, k_deaths) > 0
  local holds, sequences, holdings, n = {}, {}, {}, 0
  for entry = 1, count do
    local name, key = names[entry_lanes[entry]], entry_keys[entry]
    local home = key and sequence_of(name, key) or lane_home(name)
    for _ = 1, entry_sizes[entry] do
      n = n + 1
      local mark = some_failed and attempt('HEXISTS', k_deaths, ids[n]) == 1 and 'u' or '-'
      holds[n] = delivery_text(delivery, scores[n], mark, home)
    end
    if key then
      sequences[#sequences + 1] = home
      holdings[#sequences] = holding_text(consumer, { unpack(ids, n - entry_sizes[entry] + 1, n) })
    end
  end
  call_pairs('HSET', k_consumer(consumer), ids, holds)
  call_pairs('HSET', k_held, sequences, holdings)
  count_total('waiting', -n)
  count_total('running', n)
end

-- What is left of the sequences waits outside until they are free again.
local function put_out()
  for entry, full in pairs(entry_full) do
    if full then
      local name, key = names[entry_lanes[entry]], entry_keys[entry]
      local head = redis.call('ZRANGE', k_sequence(sequence_of(name, key)), 0, 0, 'WITHSCORES')
      if #head > 0 then
        attempt('ZADD', k_out(name), head[2], key)
      end
    end
  end
end

-- Takes up to `want` entries for the consumer; says how many, and whether a bound ended it.
local function take(consumer, number, want, prefetch, large)
  open_ring(want)
  local count, asked, full = play_turns(want, prefetch, large)
  if count > 0 then
    record_taken(consumer, string.format('%.0f', number), count)
    put_out()
  end
  write_lanes(asked)
  return count, full
end
