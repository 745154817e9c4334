-- How acquire.lua begins, see there: with a lock that is free, and that nobody waits for. Functions are made anew at every call of a
-- script, and an uncontended lock feels each: it is taken before those are made that only the others need.

local token, ttl, now, ticket = ARGV[1], ARGV[2], ARGV[4], ARGV[6]
local is_taken = ARGV[5] ~= 'own' and redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)

if is_taken and redis.call('EXISTS', KEYS[3]) == 0 and (not ticket or ARGV[8] == '0') then
  local fence = count(now)
  if fence then return fence end
end
