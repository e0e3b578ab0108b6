-- exports: config
-- Of the fields of `config` those that calls of all kinds go by, read once: the guard's, then those
-- of limits.
local config = redis.call('HMGET', k_config, 'home', 'needs', 'sealed',
  'default_ceiling', 'default_weight', 'ceiling', 'costs')
