-- How acquire.lua begins, see there. Functions are made anew at every call of a script, and an uncontended lock feels each: one that is
-- free, and that nobody waits for, is taken before those are made that only the others need.

local token, ttl, ticket = ARGV[1], ARGV[2], ARGV[7]
local is_taken = ARGV[6] ~= 'own' and redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)

if is_taken and redis.call('EXISTS', KEYS[3]) == 0 and (not ticket or ARGV[9] == '0') then
  local fence, failure = mint(ttl, ARGV[4], ARGV[5])
  if failure then
    redis.call('DEL', KEYS[1])
    return failure
  end
  return fence
end
