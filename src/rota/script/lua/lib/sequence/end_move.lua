-- include: blocked
-- exports: end_move
-- While a long sequence moves to another lane in pages, its rest is kept out without an end. When
-- nothing is left of it, whatever emptied it, there is nothing to keep out.
local function end_move(sequence)
  if
    redis.call('EXISTS', k_sequence(sequence)) == 0
    and redis.call('ZSCORE', k_blocked, 's:' .. sequence) == 'inf'
  then
    unblock('s:' .. sequence)
  end
end
