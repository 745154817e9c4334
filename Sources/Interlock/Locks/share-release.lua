-- needs: locks, groups
-- Ends one lease of a group. The end of the last lease frees the lock.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 token  2 the prefix of wake channels  3 the releasing sidecar's ID
-- Reply 1: ended; 0: the token holds no lease of the group
--
-- Guarantees that no other lease changes, and that a freed slot or lock passes to the waiters.

local token, wake_prefix, sidecar = unpack(ARGV)
local holder = redis.call('GET', KEYS[1])
if not group_slots(holder) or holder == token or redis.call('ZREM', KEYS[4], token) == 0 then return 0 end
redis.call('HDEL', KEYS[5], token)
if redis.call('ZCARD', KEYS[4]) > 1 then
  set_group_end()
  fill_slots(open_queue(wake_prefix, sidecar))
else
  redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
  if redis.call('EXISTS', KEYS[3]) == 1 then open_queue(wake_prefix, sidecar).hand_over() end
end
return 1
