-- Extends a lease on this server for the token that holds the lock.
--
-- KEYS  1 lock
-- ARGV  1 token  2 ttl in ms
-- Reply 1 extended; 0 the lock is not held by that token
--
-- Guarantees that nobody else's lease is touched, and that a lock that was free stays free.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
