-- needs: claim_window, fences, locks, groups
-- Acquires one lease of a lock that several callers may hold: as one of any number of readers, or in one slot of a
-- semaphore.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 token  2 ttl in ms  3 the prefix of wake channels  4 "take" or "own", as 5 in acquire.lua
--       5 to 7 as 6 to 8 in acquire.lua; "" if the caller does not wait
--       8 slots: 0 for readers  9 the group's name if this is its first lease
-- Reply {1, fence, the group's name, ms until a slot is free (-1: unknown)}: granted;
--       {2, fence, the group's name, the same}: extended for the same owner;
--       {0, ms until another attempt may succeed (-1: unknown), position in the queue (-1: not queued)}: refused;
--       {3, slots}: held in another mode: -1 by one holder, 0 by readers, otherwise as a semaphore
--
-- Guarantees that the group never has more leases than slots, that each lease has a higher fence than all earlier ones,
-- and that no caller overtakes the waiters: readers do not starve a writer.

local token, ttl, wake_prefix, candidate, ticket, wait_lifetime, others_lifetime, wanted, new_group = unpack(ARGV)
ttl, wanted = tonumber(ttl), tonumber(wanted)
if ticket == '' then ticket = nil end
local queue = open_queue(wake_prefix, ticket and string.match(ticket, '^[^/]*') or '')

-- This attempt answers the last notification. The next time that the ticket is first, its sidecar is notified again.
local notified = ticket and redis.call('HGET', KEYS[5], '')
if notified and string.sub(notified, -#ticket) == ticket then redis.call('HDEL', KEYS[5], '') end

-- Returns the ms until the first lease ends and frees a slot, -1 if unknown. The set's first member is the group's
-- name.
local function next_end(slots)
  local ends = slots > 0 and redis.call('ZRANGE', KEYS[4], 1, 1, 'WITHSCORES')[2]
  return ends and math.max(0, tonumber(ends) - milliseconds()) or -1
end

local function join(group)
  local fence, failure = mint(ttl)
  if failure then return failure end
  redis.call('HSET', KEYS[5], token, string.format('%.0f', fence))
  hold(token, ttl)
  if ticket then
    redis.call('ZREM', KEYS[4], ticket)
    queue.requeue(ticket, tonumber(others_lifetime))
  end
  fill_slots(queue)
  return {1, fence, group, next_end(wanted)}
end

local function refuse(remaining)
  local position = -1
  if ticket then
    queue.enqueue(ticket, tonumber(wait_lifetime), true)
    position = redis.call('ZRANK', KEYS[3], ticket)
  end
  return {0, remaining, position}
end

local function start(group)
  redis.call('SET', KEYS[1], group, 'PX', ttl)
  redis.call('DEL', KEYS[4], KEYS[5])
  redis.call('ZADD', KEYS[4], wanted, group)
  local reply = join(group)
  if reply.err then redis.call('DEL', KEYS[1], KEYS[4], KEYS[5]) end
  return reply
end

local holder = redis.call('GET', KEYS[1])

if not holder or holder == ticket then
  if candidate == 'own' then return refuse(-1) end
  if not holder and redis.call('EXISTS', KEYS[3]) == 1 and queue.hand_over(ticket) then
    return refuse(redis.call('PTTL', KEYS[1]))
  end
  return start(new_group)
end

local slots = group_slots(holder)
if not slots then
  -- A lock that is offered to a ticket does not yet show the mode in which it will be held.
  local is_offered = string.find(holder, ticket_mark)
    or (string.find(holder, '^%x%x%x%x%x%x%x%x%x%x%x%x/') and redis.call('PTTL', KEYS[1]) <= claim_window)
  if wanted > 0 and not is_offered then return {3, -1} end
  return refuse(redis.call('PTTL', KEYS[1]))
end
if (wanted == 0) ~= (slots == 0) then return {3, slots} end

local current_end = redis.call('ZSCORE', KEYS[4], token)
if current_end then
  -- An owner's lease is never shortened.
  hold(token, math.max(ttl, tonumber(current_end) - milliseconds()))
  if ticket then queue.requeue(ticket, tonumber(others_lifetime)) end
  return {2, tonumber(redis.call('HGET', KEYS[5], token)), holder, next_end(slots)}
end

local recheck_after = nil
if candidate ~= 'own' then
  if ticket and redis.call('ZSCORE', KEYS[4], ticket) then return join(holder) end
  if slots > 0 then
    reserve_slots(queue, slots, ticket)
    if has_room(slots) then return join(holder) end
  else
    local first
    first, recheck_after = notify_first_waiter(queue, ticket)
    if not first or first == ticket then return join(holder) end
  end
end
if slots > 0 then return refuse(next_end(slots)) end
local remaining = redis.call('PTTL', KEYS[1])
-- The first waiter may leave before the lease ends.
return refuse(recheck_after and remaining >= 0 and math.min(remaining, recheck_after) or remaining)
