-- Limits the script that follows to one grant of the lock, for calls that name a fence.
--
-- KEYS  as in the script that follows; 1 is the lock, 2 the fence
-- ARGV  as in the script that follows, then the fence of the grant, which is removed
-- Reply 0 if the token holds the lock under another fence; otherwise the reply of the script that follows
--
-- All grants to an owner have the same token. The fence prevents a delayed call for an earlier grant from changing a
-- later one. If the fence counter has lapsed, no grant was made since, and the token alone identifies the grant.

local owner, only_fence = ARGV[1], table.remove(ARGV)
if redis.call('GET', KEYS[1]) == owner and (redis.call('GET', KEYS[2]) or only_fence) ~= only_fence then return 0 end
