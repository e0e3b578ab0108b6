-- include: ring_lanes
-- exports: heap_push heap_pop
-- A binary heap of lanes in the ring's order.
local function heap_push(heap, lane)
  local i = #heap + 1
  while i > 1 do
    local parent = math.floor(i / 2)
    if not precedes(lane, heap[parent]) then
      break
    end
    heap[i] = heap[parent]
    i = parent
  end
  heap[i] = lane
end

local function heap_pop(heap)
  local top, last = heap[1], table.remove(heap)
  local size = #heap
  if size == 0 then
    return top
  end
  local i = 1
  while true do
    local child = 2 * i
    if child > size then
      break
    end
    if child < size and precedes(heap[child + 1], heap[child]) then
      child = child + 1
    end
    if not precedes(heap[child], last) then
      break
    end
    heap[i] = heap[child]
    i = child
  end
  heap[i] = last
  return top
end
