-- exports: now
-- The server's time in whole milliseconds, read once per call: the only clock that decides.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
