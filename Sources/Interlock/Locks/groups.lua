-- needs: claim_window, recheck_delay, max_slots, fences, locks
-- The common part of the scripts of shared locks and semaphores.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
--
-- While a group holds a lock, the lock contains the group's name, `shared/<32 hex>` or `permits-<n>/<32 hex>`, until
-- the last lease of the group ends. The holders are a sorted set: each token has as its score the millisecond in which
-- its lease ends, and the group's name has its number of slots (0: unlimited). A group that is not in its own set is
-- stale. The grants are a hash with the fence of each token; the empty field records the last notification of the first
-- waiter. `claim_window` and `recheck_delay` are in ms; a semaphore has at most `max_slots` slots.

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns the number of slots of the group that holds the lock, or nil if no group does. Drops leases that have lapsed.
local function group_slots(holder)
  local slots = holder and redis.call('ZSCORE', KEYS[4], holder)
  if not slots then return nil end
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '(' .. max_slots, milliseconds())) do
    redis.call('ZREM', KEYS[4], lapsed)
    redis.call('HDEL', KEYS[5], lapsed)
  end
  return tonumber(slots)
end

local function has_room(slots)
  return slots == 0 or redis.call('ZCARD', KEYS[4]) - 1 < slots
end

-- Makes the lock and its keys expire with the last lease.
local function set_group_end()
  local last = redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')
  redis.call('PEXPIREAT', KEYS[1], last[2])
  redis.call('PEXPIREAT', KEYS[4], last[2])
  redis.call('PEXPIREAT', KEYS[5], last[2])
end

local function hold(token, ttl)
  redis.call('ZADD', KEYS[4], string.format('%.0f', milliseconds() + ttl), token)
  set_group_end()
end

-- Notifies the first waiter behind readers to check the lock again, because it may be a reader too. Drops a ticket
-- whose sidecar makes no attempt within the claim window, because the sidecar has stopped or no longer responds. Does
-- not notify a sidecar again until `recheck_delay` after its check. Returns the first ticket and, unless it is `own`
-- (the caller's ticket), the ms after which to check whether it is still queued. Sidecars of the previous version do
-- not record their checks; they are dropped only if the message has no receiver.
local function notify_first_waiter(queue, own)
  while true do
    local first = queue.first()
    if not first or first == own then return first end
    local now = milliseconds()
    local records_checks = string.find(first, ticket_mark)
    local kind, since, ticket = string.match(redis.call('HGET', KEYS[5], '') or '', '^(%a+) (%d+) (.*)$')
    local elapsed = ticket == first and now - tonumber(since) or -1
    if (kind == 'seen' or not records_checks) and elapsed >= 0 and elapsed < recheck_delay then
      return first, recheck_delay - elapsed
    end
    if kind == 'told' and elapsed >= 0 and records_checks then
      if elapsed < claim_window then return first, claim_window - elapsed end
    elseif queue.notify(first, 'look') then
      redis.call('HSET', KEYS[5], '', string.format('told %.0f %s', now, first))
      redis.call('PEXPIRE', KEYS[5], math.max(1, redis.call('PTTL', KEYS[4])))
      return first, records_checks and claim_window or recheck_delay
    end
    redis.call('ZREM', KEYS[3], first)
  end
end

-- Reserves a slot of a semaphore for each ticket that has its turn, for the claim window. Stops at `own`, which it
-- dequeues.
local function reserve_slots(queue, slots, own)
  local is_reserved = false
  while has_room(slots) do
    local ticket = queue.dequeue_next(own)
    if not ticket then break end
    mint(claim_window)
    hold(ticket, claim_window)
    is_reserved = true
  end
  if is_reserved then queue.notify_first() end
end

-- Hands freed slots of the group to the waiters.
local function fill_slots(queue)
  local slots = group_slots(redis.call('GET', KEYS[1]))
  if not slots or redis.call('EXISTS', KEYS[3]) == 0 then return end
  if slots == 0 then notify_first_waiter(queue) else reserve_slots(queue, slots) end
end
