-- Frees a lock that the token holds, and gives it to the next who waits.
--
-- KEYS  1 lock  2 fence  3 queue
-- ARGV  1 token  2 what a wake channel's name begins with  3 the releasing sidecar's ID
--       and when others wait in this sidecar:
--       4 the next one's token  5 its ttl in ms  6 "on": this sidecar's turn may go on although others wait; else "over"
--       7 the sidecar's ticket  8 for how many ms it waits when it is not served
--       9 for how many ms others of it go on waiting when it is served (0: there are none)
-- Reply 0: the lock is not held by that token; -1: nor is it, but by a group, whose holders the lock does not name;
--       1: freed, or handed to another sidecar; {1, 1 when this sidecar is first in the queue now}: the same, and this
--       sidecar's waiters go on waiting; {2, fence, 1 when a new turn begins}: this sidecar's next waiter has it
--
-- Guarantees that nobody else's lease is touched, and that the lock passes to the next in the same moment.

local next_token, ticket = ARGV[4], ARGV[7]
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return holder and (string.find(holder, '^shared/') or string.find(holder, '^permits%-%d+/')) and -1 or 0
end

local queue
if next_token then
  queue = open_queue(ARGV[2], ARGV[3])
  local first = ARGV[6] ~= 'on' and queue.first()
  if not first or first == ticket then
    local ttl = tonumber(ARGV[5])
    local fence, failure = mint(ttl)
    if failure then
      redis.call('DEL', KEYS[1])
      return failure
    end
    redis.call('SET', KEYS[1], next_token, 'PX', ttl)
    if ARGV[6] ~= 'on' or ARGV[9] == '0' then queue.go_to_the_end(ticket, tonumber(ARGV[9])) end
    return {2, fence, ARGV[6] == 'on' and 0 or 1}
  end
  queue.line_up(ticket, tonumber(ARGV[8]), true)
end

redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[3]) == 0 then return 1 end
local _, is_first = (queue or open_queue(ARGV[2], ARGV[3])).hand_over()
return next_token and {1, is_first and 1 or 0} or 1
