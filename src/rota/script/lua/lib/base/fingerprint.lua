-- exports: fingerprint
-- Changes with everything that changes a count: equal at both ends of a recount, nothing moved.
local function fingerprint()
  local seen = { table.concat(redis.call('HGETALL', k_stats), ','), redis.call('GET', k_seq) or '' }
  return redis.sha1hex(table.concat(seen, ';'))
end
