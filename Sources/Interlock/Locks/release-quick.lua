-- needs: fence-counter
-- The uncontended path of `release.lua`: frees a lock that has no waiters, or passes it to this sidecar's next waiter
-- within its turn.
--
-- KEYS and ARGV are those of `release.lua`. As in acquire-free.lua, this path runs before the fragments that only
-- contended locks need.

local token, wake_prefix, sidecar, next_token, next_ttl, turn, ticket, wait_lifetime, others_lifetime, clock =
  unpack(ARGV)
local holder = redis.call('GET', KEYS[1])
if holder ~= token then
  return holder and (string.find(holder, '^shared/') or string.find(holder, '^permits%-%d+/')) and -1 or 0
end

if not next_token and redis.call('EXISTS', KEYS[3]) == 0 then return redis.call('DEL', KEYS[1]) end

if clock then
  local fence = count(clock)
  if fence then
    redis.call('SET', KEYS[1], next_token, 'PX', next_ttl)
    return {2, fence, 0}
  end
end
