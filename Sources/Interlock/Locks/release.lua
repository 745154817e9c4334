-- Frees a lock that the token holds, and wakes the sidecars that wait for it.
--
-- KEYS  1 lock  2 queue
-- ARGV  1 token  2 the releasing sidecar's ID (it wakes its own waiters itself)
--       3 what a wake channel's name begins with  4 the wake message
-- Reply 1 freed; 0 the lock is not held by that token
--
-- Guarantees that nobody else's lease is touched, and that every waiting sidecar is told.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  if id ~= ARGV[2] then redis.call('PUBLISH', ARGV[3] .. id, ARGV[4]) end
end
return 1
