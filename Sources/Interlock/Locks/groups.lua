-- What the scripts of shared locks and semaphores share: this text stands before each of them, after locks.lua.
--
-- While a group holds a lock, the lock names the group: `shared/<32 hex>` or `permits-<n>/<32 hex>`, for as long as the
-- last lease in it. The holders are in a sorted set: each token with the millisecond in which its lease ends, and the
-- group's name with its number of places, 0 meaning any number: a group that is not in its own set is a stale one. The
-- grants are a hash with each token's fence, and under no token what the first who waits was told.

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

-- Tells the first who waits behind readers to look: it may be a reader. A ticket without an attempt for the claim window is
-- dropped: its sidecar stands still, or only seems to listen. Who has looked is not told again for a while. Returns the first,
-- and, unless that is `own`, the asker's ticket, in how many ms to look whether it is still there. Sidecars of the version
-- before do not say that they have looked: those are dropped only when nobody listens.
local function look_first(queue, own)
  while true do
    local first = queue.first()
    if not first or first == own then return first end
    local now = milliseconds()
    local answers = string.find(first, ticket_mark)
    local what, since, ticket = string.match(redis.call('HGET', KEYS[5], '') or '', '^(%a+) (%d+) (.*)$')
    local passed = ticket == first and now - tonumber(since) or -1
    if (what == 'seen' or not answers) and passed >= 0 and passed < look_again then return first, look_again - passed end
    if what == 'told' and passed >= 0 and answers then
      if passed < claim_window then return first, claim_window - passed end
    elseif queue.tell(first, 'look') then
      redis.call('HSET', KEYS[5], '', string.format('told %.0f %s', now, first))
      redis.call('PEXPIRE', KEYS[5], math.max(1, redis.call('PTTL', KEYS[4])))
      return first, answers and claim_window or look_again
    end
    redis.call('ZREM', KEYS[3], first)
  end
end

-- Keeps a place of a semaphore for each ticket whose turn it is, for the claim window. Stops at `own`, which is taken off.
local function keep_places(queue, places, own)
  local is_kept = false
  while has_room(places) do
    local ticket = queue.call_next(own)
    if not ticket then break end
    mint(claim_window)
    hold(ticket, claim_window)
    is_kept = true
  end
  if is_kept then queue.tell_first() end
end

-- Those who wait get what has become free in the group.
local function fill_places(queue)
  local places = group_places(redis.call('GET', KEYS[1]))
  if not places or redis.call('EXISTS', KEYS[3]) == 0 then return end
  if places == 0 then look_first(queue) else keep_places(queue, places) end
end
