-- needs: quorum
-- Records the fence of a lease on a server that has it. For a renewal, also restores a lease that this server has lost.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 the lease's fence, odd  3 ttl in ms
--       to restore the lease, also: 4 the number that the renewal found here; 0: none
--       5 this server's time at that moment, in ms  6 for how many ms after that time the lease may be restored
-- Reply the number that is now recorded here; 0: the token does not hold the lock, and nothing was restored;
--       -1: nothing was restored, but no lease relies on the token in the lock yet, and it may soon be gone
--
-- Guarantees that, while the token is in the lock, the number here is odd from now on. It is the lease's fence unless a
-- higher number was recorded since the renewal read it. A lease is restored only into a free lock, only if no fence was
-- recorded here since, only within the given time, and for no longer than the renewal asked for. The fence replaces a
-- higher number that was minted for this token, or that the renewal found here with the token or unrecorded, because
-- such a number belongs to no later lease. A higher number that is recorded in a free lock stays, because it may belong
-- to a later lease.

local token, fence, ttl, found_number, found_time, window = unpack(ARGV)
fence = tonumber(fence)

local last = tonumber(redis.call('GET', KEYS[2]) or '') or 0
local holder = redis.call('GET', KEYS[1])
local is_unchanged = last == tonumber(found_number)
local elapsed, is_in_time = 0, false
if found_number then
  elapsed = math.floor(server_time() / 1000) - tonumber(found_time)
  is_in_time = elapsed >= 0 and elapsed <= tonumber(window) and elapsed < tonumber(ttl)
end
if holder ~= token then
  if not found_number then return 0 end
  if holder then return last % 2 == 0 and -1 or 0 end
  if last % 2 == 1 and not is_unchanged or not is_in_time then return 0 end
  redis.call('SET', KEYS[1], token, 'PX', string.format('%.0f', ttl - elapsed))
elseif is_in_time and is_unchanged and redis.call('PTTL', KEYS[1]) < ttl - elapsed then
  -- The renewal did not extend the lease here, because this server has another number.
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl - elapsed))
end
local is_replaceable = is_unchanged and (last % 2 == 0 or holder == token) or not found_number and last % 2 == 0
if last > fence and not is_replaceable then fence = last + 1 - last % 2 end
keep_number(fence, tonumber(ttl))
return fence
