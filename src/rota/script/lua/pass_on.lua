#!lua flags=allow-oom
-- include: bell gate next_due
-- args: beat_ms
-- resend: yes
-- sealed: goes on
-- Hands a wake on that its receiver cannot answer: rings when work stands in the ring, or when
-- something falls due within a beat and somebody must keep the time.
-- Reply: 1 rung, 0 not
local due = next_due()
if (read_gate(0) > 0 and redis.call('EXISTS', k_ring) == 1) or (due >= 0 and due <= beat_ms) then
  wake()
end
ring_bell()
return bell_wanted and 1 or 0
