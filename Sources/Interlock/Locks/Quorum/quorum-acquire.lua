-- needs: quorum
-- Acquires a lock on this server, one of a quorum, or extends it for its current owner.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 ttl in ms  3 "take": any caller may acquire it; "own": only its current owner
-- Reply {1, number}: granted; {2, number}: extended for the same owner;
--       {0, ttl in ms (-1: no expiry), 1 if a lease relies on it, 0 if its holder may have no majority}: another holder
--       has it
--
-- Guarantees that at most one token is in the lock, that the number of a grant is higher than all that this server has
-- recorded, and that an owner that acquires again never shortens its lease. A minted number is even; quorum-fence.lua
-- makes it odd when it records the lease's fence.

local token, ttl, candidate = unpack(ARGV)

local function mint()
  local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
  local number = math.max(last + 1, server_time())
  number = number + number % 2
  keep_number(number, tonumber(ttl))
  return number
end

local holder = redis.call('GET', KEYS[1])
if not holder and candidate ~= 'own' then
  local number = mint()
  redis.call('SET', KEYS[1], token, 'PX', ttl)
  return {1, number}
end
if holder == token then
  local number = tonumber(redis.call('GET', KEYS[2]) or '') or mint()
  if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[1], ttl) end
  return {2, number}
end
return {0, redis.call('PTTL', KEYS[1]), (tonumber(redis.call('GET', KEYS[2]) or '') or 0) % 2}
