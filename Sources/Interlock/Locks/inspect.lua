-- What there is to know of a lock, in one look.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 the asking sidecar's ID
-- Reply {token or nil, ttl in ms (-1 without end, -2 not held), last fence or nil, other sidecars that wait,
--        leases of the group that holds it (-1: no group)}
--
-- The token is for the sidecar alone, which shows only its label.

local holder = redis.call('GET', KEYS[1])
local others = 0
for _, ticket in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  if string.match(ticket, '^[^/]*') ~= ARGV[1] then others = others + 1 end
end
local holders = group_places(holder) and redis.call('ZCARD', KEYS[4]) - 1 or -1
return {holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), others, holders}
