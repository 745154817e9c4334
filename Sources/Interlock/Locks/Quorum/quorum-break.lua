-- Breaks a lock on this server: ends its holder's lease.
--
-- KEYS  1 lock
-- ARGV  1 the holder's token; empty for any
-- Reply the server's time in ms: broken; 0: there is no lease (no such key, not a string, or without a ttl), or
--       another's
--
-- Guarantees that only strings with a ttl are deleted. The next grant has a higher fence, like every grant.

local only_token = ARGV[1]
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('PTTL', KEYS[1]) < 0 then return 0 end
if only_token ~= '' and redis.call('GET', KEYS[1]) ~= only_token then return 0 end
redis.call('DEL', KEYS[1])
local time = redis.call('TIME')
return time[1] * 1000 + math.floor(time[2] / 1000)
