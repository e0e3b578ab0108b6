-- exports: precedes_by_bytes
-- Order of names as the server's sorted sets have it: by bytes. Lua's own `<` follows the locale
-- the server was started in; where that is not C, bytes are compared one by one.
local by_bytes = 'B' < 'a' and 'Z' < '_' and '-' < '0' and '0' < 'A'

local function precedes_by_bytes(a, b)
  if by_bytes then
    return a < b
  end
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end
