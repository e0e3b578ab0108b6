-- include: changes forget
-- exports: is_asked drop
-- Jobs in flight that someone asked to cancel: a flag in `cancels` names each until it ends. Most
-- queues have none, and whether there are any is asked once a script.
local some_asked

local function is_asked(id)
  if some_asked == nil then
    some_asked = redis.call('EXISTS', k_cancels) == 1
  end
  return some_asked and redis.call('HEXISTS', k_cancels, id) == 1
end

-- Deletes a job out of its consumer's hands; its permit and its sequence are the caller's.
local function drop(consumer, id)
  redis.call('HDEL', k_consumer(consumer), id)
  forget({ id })
  count_total('running', -1)
  count_total('cancelled', 1)
end
