-- needs: groups
-- Extends one lease of a group.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 token  2 ttl in ms  3 (optional) "watch" or "replicate", as in renew.lua
-- Reply 1: extended; 0: the token holds no lease of the group
--
-- Guarantees that no other lease changes, and that the group lasts as long as its last lease.

local token, ttl, purpose = unpack(ARGV)
ttl = tonumber(ttl)
local holder = redis.call('GET', KEYS[1])
local ends = group_slots(holder) and holder ~= token and redis.call('ZSCORE', KEYS[4], token)
if not ends then return 0 end
if purpose == 'replicate' then ttl = math.max(ttl, tonumber(ends) - milliseconds()) end
if purpose ~= 'watch' or tonumber(ends) < milliseconds() + ttl then
  -- A server at its `maxmemory` refuses a script whose first write takes memory, as the write in `hold` does.
  redis.call('PEXPIRE', KEYS[1], ttl)
  hold(token, ttl)
end
if purpose == 'watch' then redis.call('GET', KEYS[1]) end
return 1
