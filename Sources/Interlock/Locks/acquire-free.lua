-- needs: fence-counter
-- The uncontended path of `acquire.lua`: acquires a lock that is free and has no waiters.
--
-- KEYS and ARGV are those of `acquire.lua`. Redis creates a script's functions on every call, so this path runs before
-- the fragments that only contended locks need.

local token, ttl, wake_prefix, clock, candidate, ticket, wait_lifetime, others_lifetime = unpack(ARGV)
local is_taken = candidate ~= 'own' and redis.call('SET', KEYS[1], token, 'NX', 'PX', ttl)

if is_taken and redis.call('EXISTS', KEYS[3]) == 0 and (not ticket or others_lifetime == '0') then
  local fence = count(clock)
  if fence then return fence end
end
