-- needs: quorum
-- Records the fence of a lease on a server that has it. For a renewal, also restores a lease that this server has lost.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 the lease's fence, odd  3 ttl in ms  4 the number that the acquire or renewal got here; 0: none
--       to restore the lease, also: 5 this server's time at that moment, in ms
--       6 for how many ms after that time the lease may be restored
-- Reply the number that is now recorded here; 0: the token does not hold the lock, and nothing was restored;
--       -1: nothing was restored, but no lease relies on the token in the lock yet, and it may soon be gone
--
-- Guarantees that, while the token is in the lock, the number here is odd from now on: the lease's fence, or a higher
-- number that the fence may not replace. A lease is restored only into a free lock, only if no fence was recorded here
-- since, only within the given time, and for no longer than the renewal asked for. The fence replaces a higher number
-- that has not changed since if the acquire minted it for this token, or if the renewal got it with the token or
-- unrecorded, because such a number belongs to no later lease. A recorded number that the acquire got, or that is in a
-- free lock, stays, because it may belong to a later lease.

local token, fence, ttl, found_number, found_time, window = unpack(ARGV)
fence = tonumber(fence)

local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
local holder = redis.call('GET', KEYS[1])
local is_unchanged = last == tonumber(found_number)
local elapsed, is_in_time = 0, false
if found_time then
  elapsed = math.floor(server_time() / 1000) - tonumber(found_time)
  is_in_time = elapsed >= 0 and elapsed <= tonumber(window) and elapsed < tonumber(ttl)
end
if holder ~= token then
  if not found_time then return 0 end
  if holder then return last % 2 == 0 and -1 or 0 end
  if last % 2 == 1 and not is_unchanged or not is_in_time then return 0 end
  redis.call('SET', KEYS[1], token, 'PX', string.format('%.0f', ttl - elapsed))
elseif is_in_time and is_unchanged and redis.call('PTTL', KEYS[1]) < ttl - elapsed then
  -- The renewal did not extend the lease here, because this server has another number.
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl - elapsed))
end
local is_replaceable = is_unchanged and (last % 2 == 0 or found_time and holder == token)
if last > fence and not is_replaceable then fence = last + 1 - last % 2 end
keep_number(fence, tonumber(ttl))
return fence
