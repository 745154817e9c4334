-- Takes one lease of a lock that several may hold: as one of any number of readers, or as one of a semaphore's places.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 token  2 ttl in ms  3 what a wake channel's name begins with  4 as 5 in acquire.lua
--       5 to 7 as 6 to 8 in acquire.lua; "" when nobody waits
--       8 places: 0 for readers  9 the group's name, should this be its first lease
-- Reply {1, fence, the group's name, ms until a place is free (-1: unknown)} granted;
--       {2, fence, the group's name, the same} extended for the same owner;
--       {0, ms until it may be worth another look (-1: unknown), place in the queue (-1: none)} held by others;
--       {3, places} held in another way: -1 by one holder, 0 by readers, else as a semaphore
--
-- Guarantees that at most so many leases are in force as the group has places, that each has a fence higher than all
-- before it, and that nobody passes those who wait: a writer is not starved by readers.

local token, ttl = ARGV[1], tonumber(ARGV[2])
local ticket = ARGV[5] ~= '' and ARGV[5] or nil
local queue = open_queue(ARGV[3], ticket and string.match(ticket, '^[^/]*') or '')
local wanted = tonumber(ARGV[8])

-- Whoever was told to look has: what it stands first for next is told it anew.
local told = ticket and redis.call('HGET', KEYS[5], '')
if told and string.sub(told, -#ticket) == ticket then redis.call('HDEL', KEYS[5], '') end

-- The lease that ends first makes room; the group's name comes before all of them.
local function next_end(places)
  local ends = places > 0 and redis.call('ZRANGE', KEYS[4], 1, 1, 'WITHSCORES')[2]
  return ends and math.max(0, tonumber(ends) - milliseconds()) or -1
end

local function join(group)
  local fence, failure = mint(ttl)
  if failure then return failure end
  redis.call('HSET', KEYS[5], token, string.format('%.0f', fence))
  hold(token, ttl)
  if ticket then
    redis.call('ZREM', KEYS[4], ticket)
    queue.go_to_the_end(ticket, tonumber(ARGV[7]))
  end
  fill_places(queue)
  return {1, fence, group, next_end(wanted)}
end

local function refused(remaining)
  local place = -1
  if ticket then
    queue.line_up(ticket, tonumber(ARGV[6]), true)
    place = redis.call('ZRANK', KEYS[3], ticket)
  end
  return {0, remaining, place}
end

local function found(group)
  redis.call('SET', KEYS[1], group, 'PX', ttl)
  redis.call('DEL', KEYS[4], KEYS[5])
  redis.call('ZADD', KEYS[4], wanted, group)
  local reply = join(group)
  if reply.err then redis.call('DEL', KEYS[1], KEYS[4], KEYS[5]) end
  return reply
end

local holder = redis.call('GET', KEYS[1])

if not holder or holder == ticket then
  if ARGV[4] == 'own' then return refused(-1) end
  if not holder and redis.call('EXISTS', KEYS[3]) == 1 and queue.hand_over(ticket) then
    return refused(redis.call('PTTL', KEYS[1]))
  end
  return found(ARGV[9])
end

local places = group_places(holder)
if not places then
  -- A turn that is just being offered says nothing about how it will be taken.
  local is_offered = string.find(holder, ticket_mark)
    or (string.find(holder, '^%x%x%x%x%x%x%x%x%x%x%x%x/') and redis.call('PTTL', KEYS[1]) <= claim_window)
  if wanted > 0 and not is_offered then return {3, -1} end
  return refused(redis.call('PTTL', KEYS[1]))
end
if (wanted == 0) ~= (places == 0) then return {3, places} end

local standing = redis.call('ZSCORE', KEYS[4], token)
if standing then
  -- It was promised until then.
  hold(token, math.max(ttl, tonumber(standing) - milliseconds()))
  if ticket then queue.go_to_the_end(ticket, tonumber(ARGV[7])) end
  return {2, tonumber(redis.call('HGET', KEYS[5], token)), holder, next_end(places)}
end

local look = nil
if ARGV[4] ~= 'own' then
  if ticket and redis.call('ZSCORE', KEYS[4], ticket) then return join(holder) end
  if places > 0 then
    keep_places(queue, places, ticket)
    if has_room(places) then return join(holder) end
  else
    local first
    first, look = look_first(queue, ticket)
    if not first or first == ticket then return join(holder) end
  end
end
if places > 0 then return refused(next_end(places)) end
local left = redis.call('PTTL', KEYS[1])
-- The first who waits may be gone before the lease is over.
return refused(look and left >= 0 and math.min(left, look) or left)
