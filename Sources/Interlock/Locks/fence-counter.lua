-- needs: fence_lifetime, fence_slack, max_exact
-- Counts a lock's fences if the caller knows the Redis clock.
--
-- KEYS[2] is the fence. `fence_lifetime` is in ms, `fence_slack` in microseconds; every fence is below `max_exact`.

-- Returns the next fence: the counter's next number, or the clock if the counter trails it by more than the slack.
-- `now` is the caller's reading of the clock in microseconds. It may be a little old, which is harmless for an existing
-- counter; a new counter starts with the clock of Redis. A value that is not a fence was set by other software, and the
-- clock replaces it. Returns nil if the caller does not know the clock (it passes zeros), or if the key cannot be
-- incremented: `mint` in fences.lua then issues the fence or reports the error.
local function count(now)
  if now == '0000000000000000' then return nil end
  local fence = redis.pcall('INCRBY', KEYS[2], '1')
  if type(fence) ~= 'number' then return nil end
  if fence > now - fence_slack and fence < max_exact then return fence end
  if fence == 1 then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  redis.call('SET', KEYS[2], now, 'PXAT', math.floor(now / 1000) + fence_lifetime)
  return tonumber(now)
end
