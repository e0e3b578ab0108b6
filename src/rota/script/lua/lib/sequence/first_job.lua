-- include: attempt sequence_name
-- exports: first_in first_job
-- The first member of a sorted set; nil where there is none.
local function first_in(key)
  local found = attempt('ZRANGE', key, 0, 0)
  return found and found[1]
end

-- The first job of a lane's entry; nil where there is none.
local function first_job(lane, entry)
  if entry and entry:byte(1) == 33 then
    return first_in(k_sequence(sequence_of(lane, entry:sub(2))))
  end
  return entry
end
