-- needs: claim_window, counts_listeners, fence_lifetime, max_exact, fences
-- The common part of the scripts of locks: the fence of the current grant, and the queue.
--
-- KEYS  1 lock  2 fence  3 queue
--
-- The queue holds one ticket, `<sidecar ID>/ticket/<32 hex>`, for each sidecar that has waiters, with the microsecond
-- of its arrival as its score. A ticket whose turn has come leaves the queue and is stored in the lock itself for the
-- claim window: its sidecar replaces it with a waiter's token in that time, or the lock becomes free again.
--
-- `claim_window` and `fence_lifetime` are in ms. `counts_listeners`: whether PUBLISH counts all subscribers. On a
-- cluster it counts only those of this server, so a sidecar counts as dead only if its claim window passes.

-- The start of every ticket. Tickets of the previous version have no mark, and look like any token of a sidecar.
local ticket_mark = '^%x%x%x%x%x%x%x%x%x%x%x%x/ticket/'

-- Returns the fence of the current grant and keeps it at least as long as the lease; a new fence if it has expired.
local function current_fence(ttl)
  local fence = tonumber(redis.call('GET', KEYS[2]) or '')
  -- A value that is not a fence was set by other software.
  if not (fence and fence >= 1 and fence < max_exact) then return mint(ttl) end
  if ttl > fence_lifetime and redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
  return fence
end

-- Returns the queue of waiting sidecars. `wake_prefix` starts the name of a sidecar's wake channel; `sidecar` is the
-- caller's ID.
local function open_queue(wake_prefix, sidecar)
  local queue = {}

  -- Appends a ticket to the queue, even after the Redis clock was set back. The queue lasts at least `lifetime` ms.
  function queue.enqueue(ticket, lifetime, keep_position)
    if not keep_position or not redis.call('ZSCORE', KEYS[3], ticket) then
      local time = redis.call('TIME')
      local last = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2]
      local score = math.max(time[1] * 1000000 + time[2], last and last + 1 or 0)
      redis.call('ZADD', KEYS[3], string.format('%.0f', score), ticket)
    end
    if redis.call('PTTL', KEYS[3]) < lifetime then redis.call('PEXPIRE', KEYS[3], lifetime) end
  end

  -- Moves a ticket whose waiter was served to the end of the queue if others wait behind it; otherwise removes it.
  function queue.requeue(ticket, lifetime)
    if lifetime > 0 then queue.enqueue(ticket, lifetime) else redis.call('ZREM', KEYS[3], ticket) end
  end

  function queue.first() return redis.call('ZRANGE', KEYS[3], 0, 0)[1] end

  -- Notifies the sidecar of a ticket. Returns false if the message had no receiver: the sidecar is dead.
  function queue.notify(ticket, kind)
    local name = string.match(KEYS[3], '{(.*)}$')
    local message = cjson.encode({v = 1, lock = name, ticket = ticket, what = kind})
    local channel = wake_prefix .. string.match(ticket, '^[^/]*')
    if counts_listeners then return redis.call('PUBLISH', channel, message) > 0 end
    -- Sent to the lock's own server if the sidecar listens there; otherwise, and before Redis 7.0, to all servers.
    local receivers = redis.pcall('SPUBLISH', channel .. ':{' .. name .. '}', message)
    if type(receivers) ~= 'number' or receivers == 0 then redis.call('PUBLISH', channel, message) end
    return true
  end

  -- Dequeues the first ticket whose sidecar may listen, and notifies it of its turn. Drops tickets of dead sidecars.
  -- Returns nil if the queue is empty, or if `own` is first, which is dequeued as well.
  function queue.dequeue_next(own)
    while true do
      local ticket = redis.call('ZPOPMIN', KEYS[3])[1]
      if not ticket or ticket == own then return nil end
      if queue.notify(ticket, 'turn') then return ticket end
    end
  end

  -- Notifies the sidecar whose ticket is now first. It takes over if the sidecar that has its turn dies.
  -- Returns true if that is the calling sidecar, which needs no notification.
  function queue.notify_first()
    local first = queue.first()
    if not first then return false end
    if string.sub(first, 1, #sidecar + 1) == sidecar .. '/' then return true end
    queue.notify(first, 'first')
    return false
  end

  -- Gives a free lock to the next sidecar. Returns whether there was one, and whether the calling sidecar is first in
  -- the queue afterwards.
  function queue.hand_over(own)
    local ticket = queue.dequeue_next(own)
    if not ticket then return false, false end
    mint(claim_window)
    redis.call('SET', KEYS[1], ticket, 'PX', claim_window)
    return true, queue.notify_first()
  end

  return queue
end
