-- Takes a sidecar's ticket out of the queue: nobody waits behind it any more. If its turn has come meanwhile, the next has
-- it.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 ticket  2 what a wake channel's name begins with  3 the sidecar's ID
-- Reply 1 a turn was given back; 0 there was none
--
-- Guarantees that a ticket without waiters holds nobody up.

local queue = open_queue(ARGV[2], ARGV[3])
if redis.call('ZREM', KEYS[3], ARGV[1]) == 1 then
  -- Readers may have waited behind a writer only, and for nothing else.
  if group_places(redis.call('GET', KEYS[1])) == 0 then fill_places(queue) else queue.tell_first() end
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  if redis.call('EXISTS', KEYS[3]) == 1 then queue.hand_over() end
  return 1
end
if redis.call('ZREM', KEYS[4], ARGV[1]) == 0 then return 0 end
fill_places(queue)
-- A group that nobody is in any more holds nothing.
if group_places(redis.call('GET', KEYS[1])) and redis.call('ZCARD', KEYS[4]) == 1 then
  redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
end
return 1
