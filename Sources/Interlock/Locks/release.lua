-- needs: release-quick, fences, locks
-- Frees a lock that the token holds, and hands it to the next waiter.
--
-- KEYS  1 lock  2 fence  3 queue
-- ARGV  named in `release-quick.lua`:
--       1 token  2 the prefix of wake channels  3 the releasing sidecar's ID
--       if others wait in this sidecar, also:
--       4 the next waiter's token  5 its ttl in ms
--       6 "on": this sidecar's turn may continue although other sidecars wait; otherwise "over"
--       7 the sidecar's ticket  8 how many ms the sidecar waits if it is not served
--       9 how many ms its other callers still wait if it is served (0: no others wait)
--       and if 6 is "on" and others wait: 10 the Redis clock in microseconds; zeros if this sidecar does not know it
-- Reply 0: the token does not hold the lock; -1: a group holds the lock, which does not show its members;
--       1: freed, or handed to another sidecar; {1, 1 if this sidecar is now first in the queue}: the same, and this
--       sidecar's waiters still wait; {2, fence, 1 if a new turn begins}: this sidecar's next waiter has it
--
-- Guarantees that no other lease changes, and that the lock passes to the next waiter atomically.

-- If the queue's key has another type, no caller can wait there, and nothing is released.
local waiting = redis.pcall('ZCARD', KEYS[3])
if type(waiting) == 'table' then return waiting end

if not next_token then
  redis.call('DEL', KEYS[1])
  open_queue(wake_prefix, sidecar).hand_over()
  return 1
end

local continues_turn = turn == 'on'
local queue = open_queue(wake_prefix, sidecar)
local first = not continues_turn and queue.first()

if first and first ~= ticket then
  -- The lock is freed first: a server that is out of memory accepts no ticket, but must not keep the lock because of
  -- it.
  redis.call('DEL', KEYS[1])
  queue.enqueue(ticket, tonumber(wait_lifetime), true)
  local _, is_first = queue.hand_over()
  return {1, is_first and 1 or 0}
end

local fence, failure = mint(tonumber(next_ttl))
if failure then
  redis.call('DEL', KEYS[1])
  return {1, 1}
end
redis.call('SET', KEYS[1], next_token, 'PX', next_ttl)
-- Within a turn the ticket keeps its position while a caller needs it.
if not continues_turn or others_lifetime == '0' then
  queue.requeue(ticket, tonumber(others_lifetime))
  queue.notify_first()
end
return {2, fence, continues_turn and 0 or 1}
