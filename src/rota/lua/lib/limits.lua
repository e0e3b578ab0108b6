-- What a lane may do: its own setting, else the queue's.
local default_ceiling = tonumber(redis.call('HGET', k_config, 'default_ceiling') or nil)

local function ceiling_from(own)
  return tonumber(own or nil) or default_ceiling or math.huge
end

local function weight_of(lane)
  return tonumber(redis.call('HGET', k_gweight, lane) or 1)
end

local function number_text(value)
  return string.format('%.17g', value)
end
