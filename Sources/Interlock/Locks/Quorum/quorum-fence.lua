-- Records the fence of a lease on a server that holds it.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 the lease's fence, odd  3 ttl in ms
-- Reply 1 recorded; 0 the lock is not held by that token
--
-- Guarantees that whoever takes this lock here afterwards is given a higher number, and that the number here is odd from
-- now on for as long as the token stands in the lock.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local fence = tonumber(ARGV[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
if last > fence then fence = last + 1 - last % 2 end
keep_number(fence, tonumber(ARGV[3]))
return 1
