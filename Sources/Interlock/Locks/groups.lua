-- What the scripts of shared locks and semaphores share: this text stands before each of them, after locks.lua.
--
-- While a group holds a lock, the lock names the group: `shared/<32 hex>` or `permits-<n>/<32 hex>`, for as long as the
-- last lease in it. The holders are in a sorted set: each token with the millisecond in which its lease ends, and the
-- group's name with its number of places, 0 meaning any number: a group that is not in its own set is a stale one. The
-- grants are a hash with each token's fence.

local function milliseconds()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- How many places the group has that holds the lock; nil: no group does. Leases that have lapsed are dropped.
local function group_places(holder)
  local places = holder and redis.call('ZSCORE', KEYS[4], holder)
  if not places then return nil end
  for _, lapsed in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '(' .. most_places, milliseconds())) do
    redis.call('ZREM', KEYS[4], lapsed)
    redis.call('HDEL', KEYS[5], lapsed)
  end
  return tonumber(places)
end

local function has_room(places)
  return places == 0 or redis.call('ZCARD', KEYS[4]) - 1 < places
end

-- The lock and what belongs to it last as long as the last lease.
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

-- Those who wait get what has become free in the group: places of a semaphore are kept for them for the claim window; of
-- a shared lock the first is told to look, for it may be a reader.
local function fill_places(queue)
  local places = group_places(redis.call('GET', KEYS[1]))
  if not places or redis.call('EXISTS', KEYS[3]) == 0 then return end
  if places == 0 then
    local first = queue.first()
    while first and queue.tell(first, 'look') == 0 do
      redis.call('ZREM', KEYS[3], first)
      first = queue.first()
    end
    return
  end
  while has_room(places) do
    local ticket = queue.call_next()
    if not ticket then return end
    mint(claim_window)
    hold(ticket, claim_window)
  end
  queue.tell_first()
end
