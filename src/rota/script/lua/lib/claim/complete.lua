-- include: changes delivery forget give_back lists ran
-- exports: complete
-- Ends jobs that are done, no delivery named twice: record gone, counts of failures gone, permit free.
-- Answers one word per job: ok, or settled where this delivery is no longer held; no words at all where
-- every one is ok. ran: seconds of those that are charged by time; false for others, or as a whole.
local function complete(consumer, ids, deliveries, ran)
  local texts = fetch_all('HMGET', k_consumer(consumer), ids)
  local answers, done, n = {}, {}, 0
  local of_sequences, readings = {}, {}
  for i = 1, #ids do
    local id, text = ids[i], texts[i]
    local delivery, length, first
    if text then
      delivery, length, first = text:match(DELIVERY_LANE) -- read_delivery costs more
    end
    if delivery and delivery == deliveries[i] then
      n = n + 1
      done[n], answers[i] = id, 'ok'
      if ran and ran[i] then
        charge_time(text:sub(first, first + length - 1), id, ran[i])
      end
      local held = first + length <= #text and read_delivery(text)
      if held then
        of_sequences[#of_sequences + 1] = id
        readings[#of_sequences] = held
      else
        count_permits(text:sub(first, first + length - 1), -1)
      end
    else
      answers[i] = 'settled'
    end
  end
  if n > 0 then
    call_all('HDEL', k_consumer(consumer), done)
    forget(done)
    end_holdings(consumer, of_sequences, readings)
    count_total('running', -n)
    count_total('completed', n)
  end
  return n < #ids and answers or {}
end
