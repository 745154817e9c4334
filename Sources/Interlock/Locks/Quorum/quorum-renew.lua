-- needs: fence_lifetime, quorum
-- Extends a lease on this server for the token that holds the lock.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 ttl in ms  3 (optional) the fence of the only lease to extend
-- Reply {1: extended, 0: the token does not hold the lock or holds it under another fence; the number recorded here, 0:
--       none; this server's time in ms}
--
-- Guarantees that the lease of another owner does not change, nor, given a fence, a later lease of the same owner; that
-- a free lock stays free; and that the number does not lapse before the lease, however often the lease is extended.

local token, ttl, only_fence = unpack(ARGV)
ttl = tonumber(ttl)
local number = tonumber(redis.call('GET', KEYS[2]) or '') or 0
local time = math.floor(server_time() / 1000)
if redis.call('GET', KEYS[1]) ~= token then return {0, number, time} end
if only_fence and number > 0 and number ~= tonumber(only_fence) then return {0, number, time} end
redis.call('PEXPIRE', KEYS[1], ttl)
if number > 0 and redis.call('PTTL', KEYS[2]) < math.max(fence_lifetime / 2, ttl) then keep_number(number, ttl) end
return {1, number, time}
