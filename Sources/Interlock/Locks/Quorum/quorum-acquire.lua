-- Takes a lock on this server, one of a quorum, or extends it for the owner that already has it here.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 ttl in ms  3 "take": whoever asks may have it; "own": only its present owner
-- Reply {1, number} granted; {2, number} extended for the same owner;
--       {0, ttl in ms, -1 without end, 1 when a lease rests on it, 0 when its holder may have no majority} held by another
--
-- Guarantees that at most one token is in the lock, that the number of a grant is higher than all that this server knows of,
-- and that an owner who asks again never shortens what it was promised. A minted number is even; quorum-fence.lua makes it odd
-- when it records the lease's fence.

local function mint()
  local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
  local number = math.max(last + 1, server_time())
  number = number + number % 2
  keep_number(number, tonumber(ARGV[2]))
  return number
end

local holder = redis.call('GET', KEYS[1])
if not holder and ARGV[3] ~= 'own' then
  local number = mint()
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1, number}
end
if holder == ARGV[1] then
  local number = tonumber(redis.call('GET', KEYS[2]) or '') or mint()
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return {2, number}
end
return {0, redis.call('PTTL', KEYS[1]), (tonumber(redis.call('GET', KEYS[2]) or '') or 0) % 2}
