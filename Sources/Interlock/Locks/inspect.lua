-- What there is to know of a lock, in one look.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 the asking sidecar's ID  2 the most leases of a group that are told of
-- Reply {token or nil, ttl in ms (-1 without end, -2 not held), last fence or nil, other sidecars that wait,
--        leases of the group that holds it (-1: no group), its places (0: any number),
--        {token, ms left, fence or "", …} of those that end first}
--
-- The tokens are for the sidecar alone, which shows only their labels.

local holder = redis.call('GET', KEYS[1])
local others = 0
for _, ticket in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  if string.match(ticket, '^[^/]*') ~= ARGV[1] then others = others + 1 end
end
local places = group_places(holder)
local holders, leases = -1, {}
if places then
  holders = redis.call('ZCARD', KEYS[4]) - 1
  local now = milliseconds()
  -- Before them stands the group's name.
  local ends = redis.call('ZRANGE', KEYS[4], 1, ARGV[2], 'WITHSCORES')
  for i = 1, #ends, 2 do
    leases[#leases + 1] = ends[i]
    leases[#leases + 1] = math.max(0, tonumber(ends[i + 1]) - now)
    leases[#leases + 1] = redis.call('HGET', KEYS[5], ends[i]) or ''
  end
end
return {holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), others, holders, places or 0, leases}
