-- What there is to know of a lock, in one look.
--
-- KEYS  1 lock  2 fence  3 queue
-- ARGV  1 the asking sidecar's ID
-- Reply {token or nil, ttl in ms (-1 without end, -2 not held), last fence or nil, other sidecars that wait}
--
-- The token is for the sidecar alone, which shows only its label.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local others = redis.call('ZCOUNT', KEYS[3], now, '+inf')
local own = redis.call('ZSCORE', KEYS[3], ARGV[1])
if own and tonumber(own) >= now then others = others - 1 end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), others}
