-- Frees a lock that the token holds, and gives it to the next who waits.
--
-- KEYS  1 lock  2 fence  3 queue
-- ARGV  1 token  2 what a wake channel's name begins with  3 the releasing sidecar's ID
--       and when others wait in this sidecar:
--       4 the next one's token  5 its ttl in ms  6 "on": this sidecar's turn may go on although others wait; else "over"
--       7 the sidecar's ticket  8 for how many ms it waits when it is not served
--       9 for how many ms others of it go on waiting when it is served (0: there are none)
--       and when "on" and others: 10 Redis' clock in microseconds; zeros: this sidecar does not know it
-- Reply 0: the lock is not held by that token; -1: nor is it, but by a group, whose holders the lock does not name;
--       1: freed, or handed to another sidecar; {1, 1 when this sidecar is first in the queue now}: the same, and this
--       sidecar's waiters go on waiting; {2, fence, 1 when a new turn begins}: this sidecar's next waiter has it
--
-- Guarantees that nobody else's lease is touched, and that the lock passes to the next in the same moment.

-- Of another type: nobody can wait there, and nothing is released.
local waiting = redis.pcall('ZCARD', KEYS[3])
if type(waiting) == 'table' then return waiting end

if not next_token then
  redis.call('DEL', KEYS[1])
  open_queue(ARGV[2], ARGV[3]).hand_over()
  return 1
end

local ticket = ARGV[7]
local goes_on = ARGV[6] == 'on'
local queue = open_queue(ARGV[2], ARGV[3])
local first = not goes_on and queue.first()

if first and first ~= ticket then
  -- Freed first: a server that is out of memory takes no ticket, but must not keep the lock for that.
  redis.call('DEL', KEYS[1])
  queue.line_up(ticket, tonumber(ARGV[8]), true)
  local _, is_first = queue.hand_over()
  return {1, is_first and 1 or 0}
end

local ttl = tonumber(ARGV[5])
local fence, failure = mint(ttl)
if failure then
  redis.call('DEL', KEYS[1])
  return {1, 1}
end
redis.call('SET', KEYS[1], next_token, 'PX', ttl)
-- Within a turn the ticket stays where it is while somebody needs it.
if not goes_on or ARGV[9] == '0' then
  queue.go_to_the_end(ticket, tonumber(ARGV[9]))
  queue.tell_first()
end
return {2, fence, goes_on and 0 or 1}
