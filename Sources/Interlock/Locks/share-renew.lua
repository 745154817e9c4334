-- Extends one lease of a group.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders
-- ARGV  1 token  2 ttl in ms  3 "watch", as in renew.lua
-- Reply 1 extended; 0 the token holds no lease of the group
--
-- Guarantees that nobody else's lease is touched, and that the group lasts as long as its last lease.

local holder = redis.call('GET', KEYS[1])
if not group_places(holder) or holder == ARGV[1] or not redis.call('ZSCORE', KEYS[4], ARGV[1]) then return 0 end
hold(ARGV[1], tonumber(ARGV[2]))
if ARGV[3] then redis.call('GET', KEYS[1]) end
return 1
