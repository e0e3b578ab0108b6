-- include: asked changes give_back
-- exports: cancel_held
-- Ends a job in flight as cancelled: gone, its permit free, its sequence going on. `also_later`: the
-- caller believes it back in its place, and so what was taken behind it goes back, as it would have.
-- Says how many other jobs went back.
local function cancel_held(consumer, id, held, also_later)
  drop(consumer, id)
  if held.sequence then
    return leave_holding(consumer, id, held, also_later)
  end
  count_permits(held.lane, -1)
  return 0
end
