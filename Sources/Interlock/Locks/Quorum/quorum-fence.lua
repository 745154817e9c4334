-- Records the fence of a lease on a server that holds it. For a renewal also restores a lease that this server has lost.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 the lease's fence, odd  3 ttl in ms
--       To restore the lease, besides: 4 the number that stood here when the renewal asked, 0: none
--       5 this server's time then, in ms  6 how many ms after that time a restore may still be carried out
-- Reply the number that is recorded here now; 0 the token does not hold the lock, and nothing was restored;
--       -1 nothing was restored, but the token in the lock is no lease's yet and may be gone in a moment
--
-- Guarantees that the number here is odd from now on for as long as the token stands in the lock, and is the lease's fence unless a
-- higher number has come since the renewal asked. A lease is restored only into a free lock, only when no fence was recorded here
-- since the renewal asked, only within the given time, and for no longer than the renewal asked for. The fence takes the place of a
-- higher number that was minted for this token, or that the renewal found here beside the token or not yet recorded: such a number
-- belongs to no later lease. A higher number that is recorded in a free lock may belong to one, and stays.

local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
local holder = redis.call('GET', KEYS[1])
local is_unchanged = last == tonumber(ARGV[4])
local passed, is_in_time = 0, false
if ARGV[4] then
  passed = math.floor(server_time() / 1000) - tonumber(ARGV[5])
  is_in_time = passed >= 0 and passed <= tonumber(ARGV[6]) and passed < tonumber(ARGV[3])
end
if holder ~= ARGV[1] then
  if not ARGV[4] then return 0 end
  if holder then return last % 2 == 0 and -1 or 0 end
  if last % 2 == 1 and not is_unchanged or not is_in_time then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', string.format('%.0f', ARGV[3] - passed))
elseif is_in_time and is_unchanged and redis.call('PTTL', KEYS[1]) < ARGV[3] - passed then
  -- The renewal did not extend the lease here, because its number is another.
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ARGV[3] - passed))
end
local fence = tonumber(ARGV[2])
local is_in_vain = is_unchanged and (last % 2 == 0 or holder == ARGV[1]) or not ARGV[4] and last % 2 == 0
if last > fence and not is_in_vain then fence = last + 1 - last % 2 end
keep_number(fence, tonumber(ARGV[3]))
return fence
