-- needs: locks, groups
-- Removes a sidecar's ticket from the queue because no caller waits behind it. If the ticket already has its turn, the
-- turn passes to the next ticket.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 ticket  2 the prefix of wake channels  3 the sidecar's ID
-- Reply 1: the ticket had its turn, which now ends; 0: the ticket did not have its turn
--
-- Guarantees that a ticket without waiters delays no other ticket.

local ticket, wake_prefix, sidecar = unpack(ARGV)
local queue = open_queue(wake_prefix, sidecar)
if redis.call('ZREM', KEYS[3], ticket) == 1 then
  -- Readers may have waited only because this ticket was a writer's.
  if group_slots(redis.call('GET', KEYS[1])) == 0 then fill_slots(queue) else queue.notify_first() end
end
if redis.call('GET', KEYS[1]) == ticket then
  redis.call('DEL', KEYS[1])
  if redis.call('EXISTS', KEYS[3]) == 1 then queue.hand_over() end
  return 1
end
if redis.call('ZREM', KEYS[4], ticket) == 0 then return 0 end
fill_slots(queue)
-- A group without leases holds nothing.
if group_slots(redis.call('GET', KEYS[1])) and redis.call('ZCARD', KEYS[4]) == 1 then
  redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
end
return 1
