-- How share-renew.lua and share-release.lua begin when they are to touch one grant of a lock alone; see fenced.lua.
--
-- KEYS  as in the script behind it; 5 are the grants
-- ARGV  as in the script behind it, and last the fence of the grant
-- Reply 0: the token holds a lease under another fence, or else as the script behind it

local only = table.remove(ARGV)
if (redis.call('HGET', KEYS[5], ARGV[1]) or only) ~= only then return 0 end
