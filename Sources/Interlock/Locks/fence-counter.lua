-- How a lock's fences are counted where the asker knows Redis' clock: this text stands before all else of the scripts that do so.
--
-- Before it stand constants: `fence_lifetime` in ms, `fence_slack` in microseconds, and `most_exact`, which every fence is below.

-- The next fence of KEYS[2]: the counter's next number, unless that is behind the clock by more than the slack: then the clock's. `now`,
-- what the asker knows of the clock in microseconds, may be a little old, which a counter that is there does not mind; for one that
-- begins, Redis is asked. What is no fence was set by somebody else, and gives way to the clock. nil: the asker does not know the clock,
-- which zeros say, or nothing can be counted on; `mint` in fences.lua knows what to do, or says why not.
local function count(now)
  if now == '0000000000000000' then return nil end
  local fence = redis.pcall('INCRBY', KEYS[2], '1')
  if type(fence) ~= 'number' then return nil end
  if fence > now - fence_slack and fence < most_exact then return fence end
  if fence == 1 then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  redis.call('SET', KEYS[2], now, 'PXAT', math.floor(now / 1000) + fence_lifetime)
  return tonumber(now)
end
