-- Extends a lease of the token that holds the lock.
--
-- KEYS  1 lock
-- ARGV  1 token  2 ttl in ms
--       3 "watch": it is never made shorter, and whoever tracks the keys it reads is told of every later change;
--         "replicate": it is never made shorter, and written in any case: WAIT waits for what its connection has written
-- Reply 1 extended; 0 the lock is not held by that token; -1 nor is it, but by a group, whose holders the lock does not name
--
-- Guarantees that nobody else's lease is touched.

local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return holder and (string.find(holder, '^shared/') or string.find(holder, '^permits%-%d+/')) and -1 or 0
end
if not ARGV[3] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if ARGV[3] == 'replicate' then
  return redis.call('PEXPIRE', KEYS[1], math.max(tonumber(ARGV[2]), redis.call('PTTL', KEYS[1])))
end
-- Its holder may have made it longer than whoever looks after it knows.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
-- The extension was a change, which ended the tracking of the first read.
redis.call('GET', KEYS[1])
return 1
