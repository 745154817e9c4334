-- needs: fence_lifetime, max_exact
-- Issues a lock's fences when the counter cannot be used.
--
-- KEYS[2] is the fence. `fence_lifetime` is in ms; every fence is below `max_exact`.

-- Returns the next fence, which is higher than all earlier ones; or nil and the error. A counter may expire, and a
-- failover may set it back. Fences increase even after a counter has expired, because it does not expire before the
-- Redis clock has reached its number.
local function mint(ttl)
  local lifetime = math.max(fence_lifetime, ttl)
  local time = redis.call('TIME')
  local fence = time[1] * 1000000 + time[2]
  local last = redis.pcall('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime, 'GET')
  if type(last) == 'table' then return nil, last end
  last = last and tonumber(last)
  -- A value that is not a fence was set by other software.
  if last and last >= fence and last < max_exact - 1 then
    lifetime = lifetime + math.ceil((last + 1 - fence) / 1000)
    fence = last + 1
    redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime)
  end
  return fence
end
