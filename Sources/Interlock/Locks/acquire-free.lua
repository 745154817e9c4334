-- How acquire.lua begins, see there: with a lock that is free, and that nobody waits for. Functions are made anew at every call of a
-- script, and an uncontended lock feels each: it is taken before any is made.
--
-- Its fence is the counter's next number, unless that is behind Redis' clock by more than the slack: then the clock's. What the asker
-- knows of the clock may be a little old, which a counter that is there does not mind; for one that begins, Redis is asked. What is no
-- fence was set by somebody else, and gives way to the clock; what cannot be counted on is left to `mint` in fences.lua, as is a clock
-- that the asker does not know: zeros.
--
-- Before it stand constants: `fence_lifetime` in ms, and `fence_slack` in microseconds.

local token, ttl, now, ticket = ARGV[1], ARGV[2], ARGV[4], ARGV[6]
local is_taken = ARGV[5] ~= 'own' and redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)

if is_taken and redis.call('EXISTS', KEYS[3]) == 0 and now ~= '0000000000000000' and (not ticket or ARGV[8] == '0') then
  local fence = redis.pcall('INCRBY', KEYS[2], '1')
  if type(fence) == 'number' then
    if fence > now - fence_slack and fence < 2^53 then return fence end
    if fence == 1 then
      local time = redis.call('TIME')
      now = time[1] * 1000000 + time[2]
    end
    redis.call('SET', KEYS[2], now, 'PXAT', math.floor(now / 1000) + fence_lifetime)
    return tonumber(now)
  end
end
