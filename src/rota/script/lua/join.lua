#!lua flags=allow-oom
-- include: clock consumer
-- args: consumer lease_ms name
-- resend: yes
-- sealed: goes on
-- Creates a lease under a fresh id. name: host and process, kept for people.
-- Reply: now
redis.call('HSETNX', k_config, 'needs', 1)
redis.call('HSET', k_consumer(consumer), '!claim', 0, '!lease', lease_ms, '!name', padded(name))
redis.call('ZADD', k_consumers, now + lease_ms, consumer)
return now
