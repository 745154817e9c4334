-- Extends a lease on this server for the token that holds the lock.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 ttl in ms  3 the fence of the only lease that is to be extended; otherwise nothing
-- Reply 1 extended; 0 the lock is not held by that token, or not under that fence
--
-- Guarantees that nobody else's lease is touched, nor with a fence a later one of the same owner, and that a lock that was free stays free.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local number = ARGV[3] and tonumber(redis.call('GET', KEYS[2]) or '')
if number and number ~= tonumber(ARGV[3]) then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
