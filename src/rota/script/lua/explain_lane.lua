#!lua flags=no-writes
-- include: explain
-- args: lane
-- resend: yes
-- What an explanation of a lane is made of, at one moment.
-- Reply: a msgpack map {queue, lane, ring, sequences}: see lib/page/explain; sequences: the first of
-- those that are out, told only when nothing of the lane may be claimed.
local facts = { queue = queue_facts(), lane = lane_facts(lane), ring = ring_facts(lane, 0), sequences = {} }
if facts.lane.pending == 0 then
  for i, key in ipairs(redis.call('ZRANGE', k_out(lane), 0, SHOWN_MAX - 1)) do
    facts.sequences[i] = sequence_facts(lane, key)
  end
end
return packed(facts)
