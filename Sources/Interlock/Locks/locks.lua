-- What the scripts of locks share: this text stands before each of them.
--
-- Their first keys are always  1 lock  2 fence  3 queue  and, where groups are concerned,  4 holders  5 grants.
--
-- The queue holds one ticket for each sidecar that has waiters: a token of its own, `<sidecar ID>/ticket/<32 hex>`, with the
-- microsecond in which it came as its score. A ticket whose turn has come is taken off the queue and stands in the lock
-- itself, for the claim window: then its sidecar has put a waiter's token in its place, or the lock is free again.
--
-- Before it stand fences.lua and constants: `claim_window` and `look_again` in ms, `most_places` that a semaphore may have, and
-- `counts_listeners`: whether PUBLISH counts all who hear it. On a cluster it counts those at this server alone: then nobody is taken
-- for gone who does not answer, but for the one whose claim window passes.

-- What a ticket begins with. Those of the version before have no mark, and look like any token of a sidecar.
local ticket_mark = '^%x%x%x%x%x%x%x%x%x%x%x%x/ticket/'

-- The fence of the grant that stands, for as long as the lease at least; a new one when it has lapsed.
local function present_fence(ttl)
  local fence = tonumber(redis.call('GET', KEYS[2]) or '')
  -- What is no fence was set by somebody else.
  if not (fence and fence >= 1 and fence < most_exact) then return mint(ttl) end
  if ttl > fence_lifetime and redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
  return fence
end

-- The sidecars that wait. `wake`: what the name of a sidecar's channel begins with; `sidecar`: the ID of the one that asks.
local function open_queue(wake, sidecar)
  local queue = {}

  -- A ticket's place: the end of the queue, also when Redis' clock was set back. It lasts for so many milliseconds at least.
  function queue.line_up(ticket, lifetime, keeps_its_place)
    if not keeps_its_place or not redis.call('ZSCORE', KEYS[3], ticket) then
      local time = redis.call('TIME')
      local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
      local place = math.max(time[1] * 1000000 + time[2], last and last + 1 or 0)
      redis.call('ZADD', KEYS[3], string.format('%.0f', place), ticket)
    end
    if redis.call('PTTL', KEYS[3]) < lifetime then redis.call('PEXPIRE', KEYS[3], lifetime) end
  end

  -- A ticket after one of its waiters was served: at the end again when others wait behind it, else gone.
  function queue.go_to_the_end(ticket, lifetime)
    if lifetime > 0 then queue.line_up(ticket, lifetime) else redis.call('ZREM', KEYS[3], ticket) end
  end

  function queue.first() return redis.call('ZRANGE', KEYS[3], 0, 0)[1] end

  -- Tells the sidecar of a ticket. Returns whether it may have heard it: if not, it is gone.
  function queue.tell(ticket, what)
    local name = string.match(KEYS[3], '{(.*)}$')
    local message = cjson.encode({v = 1, lock = name, ticket = ticket, what = what})
    local channel = wake .. string.match(ticket, '^[^/]*')
    if counts_listeners then return redis.call('PUBLISH', channel, message) > 0 end
    -- At the lock's own server, if the sidecar listens there; else, and before Redis 7.0, everywhere.
    local heard = redis.pcall('SPUBLISH', channel .. ':{' .. name .. '}', message)
    if type(heard) ~= 'number' or heard == 0 then redis.call('PUBLISH', channel, message) end
    return true
  end

  -- Takes the first ticket whose sidecar may listen off the queue, and tells it that it is its turn. nil: there is none left,
  -- or `own` is first (it is taken off as well). Tickets of sidecars that are gone are dropped on the way.
  function queue.call_next(own)
    while true do
      local ticket = redis.call('ZPOPMIN', KEYS[3])[1]
      if not ticket or ticket == own then return nil end
      if queue.tell(ticket, 'turn') then return ticket end
    end
  end

  -- Who is first now keeps an eye on the lock: should the one whose turn it is be dead, it takes over. Returns true when
  -- the first is the asking sidecar's own ticket, which need not be told.
  function queue.tell_first()
    local first = queue.first()
    if not first then return false end
    if string.sub(first, 1, #sidecar + 1) == sidecar .. '/' then return true end
    queue.tell(first, 'first')
    return false
  end

  -- Gives a lock that is free to the next sidecar. Returns whether there was one, and whether the asking sidecar is first
  -- in the queue after it.
  function queue.hand_over(own)
    local ticket = queue.call_next(own)
    if not ticket then return false, false end
    mint(claim_window)
    redis.call('SET', KEYS[1], ticket, 'PX', claim_window)
    return true, queue.tell_first()
  end

  return queue
end
