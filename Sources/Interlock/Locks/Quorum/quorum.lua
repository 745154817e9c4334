-- What the scripts that write a quorum's numbers share: this text stands before each of them.
--
-- Before it stands a constant: `fence_lifetime` in ms.

-- Microseconds since 1970.
local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Keeps a number, at least as long as the lease of `ttl` ms. No counter is immortal: the server's clock alone keeps fences rising
-- when theirs has lapsed, which it does not before the clock has reached its number.
local function keep_number(number, ttl)
  local lifetime = math.max(fence_lifetime, ttl) + math.max(0, math.ceil((number - server_time()) / 1000))
  redis.call('SET', KEYS[2], string.format('%.0f', number), 'PX', string.format('%.0f', lifetime))
end
