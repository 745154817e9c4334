-- How renew.lua and release.lua begin when they are to touch one grant of a lock alone: this text stands before all else.
--
-- KEYS  as in the script behind it; 2 is the fence
-- ARGV  as in the script behind it, and last the fence of the grant
-- Reply 0: the token holds the lock under another fence, or else as the script behind it
--
-- An owner's token comes back with every grant to that owner. What was sent for an earlier grant, and arrives late, touches no later one.
-- Without its counter nothing tells grants apart: it has lapsed, and nothing was granted since.

local only = table.remove(ARGV)
if redis.call('GET', KEYS[1]) == ARGV[1] and (redis.call('GET', KEYS[2]) or only) ~= only then return 0 end
