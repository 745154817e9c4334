-- Takes a lock for one holder, claims it when it is the waiter's turn, or extends it for the owner that already has it.
--
-- KEYS  1 lock  2 fence  3 queue, and of somebody who waits  4 holders  5 grants
-- ARGV  1 token  2 ttl in ms  3 what a wake channel's name begins with
--       4 Redis' clock in microseconds; zeros: the asker does not know it
--       5 "take", the default: whoever asks may have it unless others wait; "own": only its present owner
--       and of somebody who waits:
--       6 its sidecar's ticket  7 for how many ms the sidecar waits when it is refused
--       8 for how many ms others of the sidecar go on waiting when it is granted (0: there are none)
-- Reply fence, or {1, fence}: granted; {2, fence} extended for the same owner;
--       {0, ttl in ms (-1: without end), place in the queue (0: first; -1: none)} held by another;
--       {3, places} held as a semaphore, which one holder alone cannot take
--
-- Guarantees that at most one token is in the lock, that every grant's fence is higher than all before it, that nobody
-- passes those who wait, that a refused waiter's ticket stands before any later release can look for it, and that an owner who
-- asks again never shortens what it was promised.

ttl = tonumber(ttl)
local queue = ticket and open_queue(ARGV[3], string.match(ticket, '^[^/]*'))

if is_taken then
  -- Of another type: nobody can wait there, and nothing is taken.
  local waiting = redis.pcall('ZCARD', KEYS[3])
  if type(waiting) == 'table' then
    redis.call('DEL', KEYS[1])
    return waiting
  end
end

if is_taken and not (queue or open_queue(ARGV[3], '')).hand_over(ticket) then
  local fence, failure = mint(ttl)
  if failure then
    redis.call('DEL', KEYS[1])
    return failure
  end
  if ticket then
    queue.go_to_the_end(ticket, tonumber(ARGV[8]))
    queue.tell_first()
  end
  return {1, fence}
end

local holder = redis.call('GET', KEYS[1])

if holder == token or (ticket and holder == ticket) then
  -- The fence that the lock was offered with may have been given to another of this sidecar, before a failover.
  local fence, failure
  if holder == token then fence, failure = present_fence(ttl) else fence, failure = mint(ttl) end
  if failure then return failure end
  redis.call('SET', KEYS[1], token, 'PX', holder == token and math.max(ttl, redis.call('PTTL', KEYS[1])) or ttl)
  if ticket then queue.go_to_the_end(ticket, tonumber(ARGV[8])) end
  return {holder == token and 2 or 1, fence}
end

local places = holder and string.match(holder, '^permits%-(%d+)/')
if places then return {3, tonumber(places)} end

local place = -1
if ticket then
  queue.line_up(ticket, tonumber(ARGV[7]), true)
  place = redis.call('ZRANK', KEYS[3], ticket)
  -- It was told to look behind readers, and has: see groups.lua.
  if place == 0 and holder and string.find(holder, '^shared/') and redis.call('HGET', KEYS[5], '') then
    local time = redis.call('TIME')
    redis.call('HSET', KEYS[5], '', string.format('seen %.0f %s', time[1] * 1000 + math.floor(time[2] / 1000), ticket))
  end
end
return {0, redis.call('PTTL', KEYS[1]), place}
