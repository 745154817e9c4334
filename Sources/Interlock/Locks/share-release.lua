-- Ends one lease of a group; the last one frees the lock.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 token  2 what a wake channel's name begins with  3 the releasing sidecar's ID
-- Reply 1 ended; 0 the token holds no lease of the group
--
-- Guarantees that nobody else's lease is touched, and that what becomes free goes to those who wait.

local holder = redis.call('GET', KEYS[1])
if not group_places(holder) or holder == ARGV[1] or redis.call('ZREM', KEYS[4], ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[5], ARGV[1])
if redis.call('ZCARD', KEYS[4]) > 1 then
  set_group_end()
  fill_places(open_queue(ARGV[2], ARGV[3]))
else
  redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
  if redis.call('EXISTS', KEYS[3]) == 1 then open_queue(ARGV[2], ARGV[3]).hand_over() end
end
return 1
