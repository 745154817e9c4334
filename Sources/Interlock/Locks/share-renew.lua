-- Extends one lease of a group.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 token  2 ttl in ms  3 "watch" or "replicate", as in renew.lua
-- Reply 1 extended; 0 the token holds no lease of the group
--
-- Guarantees that nobody else's lease is touched, and that the group lasts as long as its last lease.

local holder = redis.call('GET', KEYS[1])
local ends = group_places(holder) and holder ~= ARGV[1] and redis.call('ZSCORE', KEYS[4], ARGV[1])
if not ends then return 0 end
local ttl = tonumber(ARGV[2])
if ARGV[3] == 'replicate' then ttl = math.max(ttl, tonumber(ends) - milliseconds()) end
if ARGV[3] ~= 'watch' or tonumber(ends) < milliseconds() + ttl then
  -- A server at its `maxmemory` refuses a script whose first write takes memory, as the next one does.
  redis.call('PEXPIRE', KEYS[1], ttl)
  hold(ARGV[1], ttl)
end
if ARGV[3] == 'watch' then redis.call('GET', KEYS[1]) end
return 1
