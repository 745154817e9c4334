-- The prefix of share-renew.lua and share-release.lua for calls that name a fence: it limits them to one grant. See fenced.lua.
--
-- KEYS  as in the script that follows; 5 is the hash of grants
-- ARGV  as in the script that follows, then the fence of the grant
-- Reply 0 if the token holds a lease under another fence; otherwise the reply of the script that follows

local only = table.remove(ARGV)
if (redis.call('HGET', KEYS[5], ARGV[1]) or only) ~= only then return 0 end
