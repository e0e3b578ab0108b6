#!lua flags=no-writes
-- include: explain holding home lists record sequence_name state
-- args: id
-- resend: yes
-- What an explanation of a job is made of, at one moment.
-- Reply: a msgpack map {queue, job, lane, sequence, ring}: see lib/page/explain; no job where there is
-- none; no lane where its record cannot be read (it waits where no consumer holds it); a running job's
-- consumer only where its sequence tells it.
local facts = { queue = queue_facts() }
if redis.call('EXISTS', k_job(id)) == 0 then
  return packed(facts)
end

local _, said = read_head(id)
local _, header = read_whole(id)
local lane, key
if header then
  lane, key = home_of(header)
end
local state, time = where_is(id)
local job = {
  id = id,
  state = state,
  task = text_in(said, 'task'),
  key = header and header.key,
  attempts = count_of(k_attempts, id),
  deaths = count_of(k_deaths, id),
  note = redis.call('HGET', k_errors, id) or '',
  cancelled = redis.call('HGET', k_cancels, id) or nil,
  dead_since = state == 'dead' and time or nil,
  due = state == 'delayed' and time or nil,
}
facts.job = job
if lane then
  facts.lane = lane_facts(lane)
  facts.sequence = key and sequence_facts(lane, key)
  job.rank = redis.call('ZRANK', k_pending(lane), key and '!' .. key or id) or nil
  job.place = key and redis.call('ZRANK', waits_in(lane, key), id) or nil
end

if state == 'running' and facts.sequence and facts.sequence.consumer then
  local holding = read_holding(sequence_of(lane, key))
  for i, held in ipairs(holding.jobs) do
    if held == id then
      job.consumer, job.behind, job.first = facts.sequence.consumer, i - 1, holding.jobs[1]
    end
  end
elseif state == 'waiting' and job.rank then
  facts.ring = ring_facts(lane, job.rank + (job.place or 0))
end
return packed(facts)
