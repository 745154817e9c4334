-- needs: fence_lifetime
-- Stores the number of a grant on one server, for the scripts of a quorum.
--
-- KEYS[2] is the fence. `fence_lifetime` is in ms.

-- Returns the server's time as Unix time in microseconds.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Stores a number for at least as long as the lease of `ttl` ms. Fences increase even after a number has expired,
-- because it does not expire before the server's clock has reached it.
local function keep_number(number, ttl)
  local lifetime = math.max(fence_lifetime, ttl) + math.max(0, math.ceil((number - server_time()) / 1000))
  redis.call('SET', KEYS[2], string.format('%.0f', number), 'PX', string.format('%.0f', lifetime))
end
