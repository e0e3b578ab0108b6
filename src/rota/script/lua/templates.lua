#!lua flags=no-writes
-- resend: yes
-- All templates; there are at most a thousand.
-- Reply: flat: name, JSON {ceiling, weight, rate, backlog} of texts, any of them absent
return redis.call('HGETALL', k_templates)
