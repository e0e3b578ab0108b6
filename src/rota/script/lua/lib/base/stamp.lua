-- include: clock
-- exports: stamped
-- A note of why, a JSON object, with the time it was made.
local function stamped(note)
  return note:sub(1, -2) .. string.format(',"at":%.0f}', now)
end
