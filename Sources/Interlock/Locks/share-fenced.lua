-- Limits the script that follows to one grant in a group, for calls that name a fence. See fenced.lua.
--
-- KEYS  as in the script that follows; 5 is the hash of grants
-- ARGV  as in the script that follows, then the fence of the grant, which is removed
-- Reply 0 if the token holds a lease under another fence; otherwise the reply of the script that follows

local owner, only_fence = ARGV[1], table.remove(ARGV)
if (redis.call('HGET', KEYS[5], owner) or only_fence) ~= only_fence then return 0 end
