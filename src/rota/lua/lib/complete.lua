-- Ends jobs that are done: record gone, counts of failures gone, permit free.
-- Answers one word per job: ok, or settled where this delivery is no longer held.
local function complete(consumer, ids, deliveries)
  local texts = fetch_all('HMGET', k_consumer(consumer), ids)
  local answers, done, seen = {}, {}, {}
  for i, id in ipairs(ids) do
    local held = texts[i] and not seen[id] and read_delivery(texts[i])
    if held and held.delivery == deliveries[i] then
      answers[i] = 'ok'
      seen[id] = true
      done[#done + 1] = id
      if held.sequence then
        leave_holding(consumer, id, held, false)
      else
        count_permits(held.lane, -1)
      end
    else
      answers[i] = 'settled'
    end
  end
  if #done > 0 then
    call_all('HDEL', k_consumer(consumer), done)
    forget(done)
    count_total('running', -#done)
    count_total('completed', #done)
  end
  return answers
end
