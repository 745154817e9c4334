-- Extends a lease of the token that holds the lock.
--
-- KEYS  1 lock
-- ARGV  1 token  2 ttl in ms
--       3 (optional) "watch": never shortens the lease, and a client that tracks its reads is notified of later changes;
--         "replicate": never shortens the lease, and always writes, because WAIT covers only its own connection
-- Reply 1: extended; 0: the token does not hold the lock; -1: a group holds the lock, which does not
--       show its members
--
-- Guarantees that no other lease changes.

local token, ttl, purpose = unpack(ARGV)
local holder = redis.call('GET', KEYS[1])
if holder ~= token then
  return holder and (string.find(holder, '^shared/') or string.find(holder, '^permits%-%d+/')) and -1 or 0
end
if not purpose then return redis.call('PEXPIRE', KEYS[1], ttl) end
if purpose == 'replicate' then
  return redis.call('PEXPIRE', KEYS[1], math.max(tonumber(ttl), redis.call('PTTL', KEYS[1])))
end
-- The holder may have extended the lease since the sidecar last read it.
if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[1], ttl) end
-- The extension was a change, which ended the tracking of the first read.
redis.call('GET', KEYS[1])
return 1
