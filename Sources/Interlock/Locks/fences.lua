-- How locks get their fences: this text stands before all else of the scripts that grant them, but for what is done at once.
--
-- Before it stand constants: `fence_lifetime` in ms, and `most_exact`, which every fence is below.

-- The next fence of KEYS[2], higher than every one before it; or nil and the error. No counter is immortal, and a failover may set
-- one back: Redis' clock keeps fences rising when theirs has lapsed, which it does not before the clock has reached its number.
local function mint(ttl)
  local lifetime = math.max(fence_lifetime, ttl)
  local time = redis.call('TIME')
  local fence = time[1] * 1000000 + time[2]
  local last = redis.pcall('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime, 'GET')
  if type(last) == 'table' then return nil, last end
  last = last and tonumber(last)
  -- What is no fence was set by somebody else.
  if last and last >= fence and last < most_exact - 1 then
    lifetime = lifetime + math.ceil((last + 1 - fence) / 1000)
    fence = last + 1
    redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime)
  end
  return fence
end
