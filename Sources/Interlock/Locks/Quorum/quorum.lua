-- needs: fence_lifetime
-- How the scripts of a quorum store a number on one server.
--
-- KEYS[2] is the fence. `fence_lifetime` is in ms.

-- Microseconds since 1970.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Stores a number for at least as long as the lease of `ttl` ms. No counter lives forever: the server's clock keeps
-- fences rising after a number has lapsed, because a number does not lapse before the clock has reached it.
local function keep_number(number, ttl)
  local lifetime = math.max(fence_lifetime, ttl) + math.max(0, math.ceil((number - server_time()) / 1000))
  redis.call('SET', KEYS[2], string.format('%.0f', number), 'PX', string.format('%.0f', lifetime))
end
