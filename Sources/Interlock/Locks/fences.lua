-- How locks get their fences: this text stands before all else of the scripts that grant them.
--
-- Before it stand constants: `fence_lifetime` in ms, and `fence_slack` in microseconds.

-- The next fence of KEYS[2], higher than every one before it; or nil and the error. No counter is immortal, and a failover may set
-- one back: Redis' clock keeps fences rising when theirs has lapsed, which it does not before the clock has reached its number, and
-- a counter that is behind the clock by more than the slack is brought up to it.
--
-- `now`, that clock in microseconds, and `lapse`, when the counter lapses in ms, as whoever asks knows them: they may be a little behind,
-- which no counter that is there minds. Where there is none, where they are zeros, or without them, Redis is asked, which costs more
-- than all the rest.
local function mint(ttl, now, lapse)
  local is_new = false
  if now and now ~= '0000000000000000' then
    local fence = redis.pcall('INCRBY', KEYS[2], '1')
    is_new = fence == 1
    -- What cannot be counted on is written anew, or says why it cannot be.
    if type(fence) == 'number' and not is_new then
      if fence > now - fence_slack then return fence end
      redis.call('SET', KEYS[2], now, 'PXAT', lapse)
      return tonumber(now)
    end
  end
  local lifetime = math.max(fence_lifetime, ttl)
  local time = redis.call('TIME')
  local fence = time[1] * 1000000 + time[2]
  if is_new then
    redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime)
    return fence
  end
  local last = redis.pcall('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime, 'GET')
  if type(last) == 'table' then return nil, last end
  last = last and tonumber(last)
  if last and last >= fence then
    lifetime = lifetime + math.ceil((last + 1 - fence) / 1000)
    fence = last + 1
    redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', lifetime)
  end
  return fence
end
