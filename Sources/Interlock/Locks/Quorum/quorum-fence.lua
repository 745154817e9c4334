-- Records the fence of a lease on a server that holds it. For a renewal also restores a lease that this server has lost.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 the lease's fence, odd  3 ttl in ms
--       To restore the lease, besides: 4 the number that stood here when the renewal asked, 0: none
--       5 this server's time then, in ms  6 how many ms after that time a restore may still be carried out
-- Reply the number that is recorded here now; 0 the token does not hold the lock, and nothing was restored;
--       -1 nothing was restored, but the token in the lock is no lease's yet and may be gone in a moment
--
-- Guarantees that whoever takes this lock here afterwards is given a higher number, and that the number here is odd from
-- now on for as long as the token stands in the lock. A lease is restored only into a free lock, only when no fence was recorded
-- here since the renewal asked, only within the given time, and for no longer than the renewal asked for.

local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  if not ARGV[4] then return 0 end
  if holder then return last % 2 == 0 and -1 or 0 end
  if last % 2 == 1 and last ~= tonumber(ARGV[4]) then return 0 end
  local passed = math.floor(server_time() / 1000) - tonumber(ARGV[5])
  if passed < 0 or passed > tonumber(ARGV[6]) or passed >= tonumber(ARGV[3]) then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', string.format('%.0f', ARGV[3] - passed))
end
local fence = tonumber(ARGV[2])
-- Failed attempts minted the number that this server had when a majority renewed the lease.
local is_minted_in_vain = last % 2 == 0 and last == tonumber(ARGV[4])
if last > fence and not is_minted_in_vain then fence = last + 1 - last % 2 end
keep_number(fence, tonumber(ARGV[3]))
return fence
