-- needs: acquire-free, fences, locks
-- Acquires a lock for one holder: takes a free lock, claims the waiter's turn, or extends the lease of the owner.
--
-- KEYS  1 lock  2 fence  3 queue; for a waiter also: 4 holders  5 grants
-- ARGV  named in `acquire-free.lua`:
--       1 token  2 ttl in ms  3 the prefix of wake channels
--       4 the Redis clock in microseconds; zeros if the caller does not know it
--       5 "take", the default: any caller may acquire the lock unless others wait; "own": only its current owner
--       for a waiter also:
--       6 its sidecar's ticket  7 how many ms the sidecar waits if this call is refused
--       8 how many ms other callers of the sidecar still wait if this call is granted (0: no others wait)
-- Reply fence, or {1, fence}: granted; {2, fence}: extended for the same owner;
--       {0, ttl in ms (-1: no expiry), position in the queue (0: first; -1: not queued)}: another holder has it;
--       {3, slots}: held as a semaphore, which excludes a single holder
--
-- Guarantees that at most one token is in the lock, that each grant's fence is higher than all earlier ones, that no
-- caller overtakes the waiters, that a refused waiter's ticket is queued before any later release reads the queue, and
-- that an owner that acquires again never shortens its lease.

ttl = tonumber(ttl)
local queue = ticket and open_queue(wake_prefix, string.match(ticket, '^[^/]*'))

if is_taken then
  -- If the queue's key has another type, no caller can wait there: undo the grant and report the error.
  local waiting = redis.pcall('ZCARD', KEYS[3])
  if type(waiting) == 'table' then
    redis.call('DEL', KEYS[1])
    return waiting
  end
end

if is_taken and not (queue or open_queue(wake_prefix, '')).hand_over(ticket) then
  local fence, failure = mint(ttl)
  if failure then
    redis.call('DEL', KEYS[1])
    return failure
  end
  if ticket then
    queue.requeue(ticket, tonumber(others_lifetime))
    queue.notify_first()
  end
  return {1, fence}
end

local holder = redis.call('GET', KEYS[1])

if holder == token or (ticket and holder == ticket) then
  -- The fence of the offer is not used: before a failover, another caller of this sidecar may have got it.
  local fence, failure
  if holder == token then fence, failure = current_fence(ttl) else fence, failure = mint(ttl) end
  if failure then return failure end
  redis.call('SET', KEYS[1], token, 'PX', holder == token and math.max(ttl, redis.call('PTTL', KEYS[1])) or ttl)
  if ticket then queue.requeue(ticket, tonumber(others_lifetime)) end
  return {holder == token and 2 or 1, fence}
end

local slots = holder and string.match(holder, '^permits%-(%d+)/')
if slots then return {3, tonumber(slots)} end

local position = -1
if ticket then
  queue.enqueue(ticket, tonumber(wait_lifetime), true)
  position = redis.call('ZRANK', KEYS[3], ticket)
  -- Records that the first waiter has checked again, as requested by `notify_first_waiter` in groups.lua.
  if position == 0 and holder and string.find(holder, '^shared/') and redis.call('HGET', KEYS[5], '') then
    local time = redis.call('TIME')
    redis.call('HSET', KEYS[5], '', string.format('seen %.0f %s', time[1] * 1000 + math.floor(time[2] / 1000), ticket))
  end
end
return {0, redis.call('PTTL', KEYS[1]), position}
