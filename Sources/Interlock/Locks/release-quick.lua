-- How release.lua begins, see there: with a lock that nobody waits for, and with one that goes on to this sidecar's next waiter within
-- its turn. As in acquire-free.lua, before the functions are made that only the others need.

local next_token, now = ARGV[4], ARGV[10]
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return holder and (string.find(holder, '^shared/') or string.find(holder, '^permits%-%d+/')) and -1 or 0
end

if not next_token and redis.call('EXISTS', KEYS[3]) == 0 then return redis.call('DEL', KEYS[1]) end

if now then
  local fence = count(now)
  if fence then
    redis.call('SET', KEYS[1], next_token, 'PX', ARGV[5])
    return {2, fence, 0}
  end
end
