-- The prefix of renew.lua and release.lua for calls that name a fence: it limits them to one grant of the lock.
--
-- KEYS  as in the script that follows; 2 is the fence
-- ARGV  as in the script that follows, then the fence of the grant
-- Reply 0 if the token holds the lock under another fence; otherwise the reply of the script that follows
--
-- Every grant to an owner has the same token, so the fence keeps a delayed call for an earlier grant from touching a later
-- one. If the fence counter has lapsed, nothing was granted since, and the token alone identifies the grant.

local only = table.remove(ARGV)
if redis.call('GET', KEYS[1]) == ARGV[1] and (redis.call('GET', KEYS[2]) or only) ~= only then return 0 end
