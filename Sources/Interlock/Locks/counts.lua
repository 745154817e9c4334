-- Publishes the number of callers that wait in one sidecar, for locks under inspection.
--
-- KEYS  the counts of each lock
-- ARGV  for each lock: the sidecar's ticket, the ms for which the count is valid, the number of callers that wait
--       behind the ticket
-- Reply nil
--
-- Guarantees that a count is ignored after its time has passed. The counts of a lock are a hash: for each sidecar, the
-- millisecond until which its count is valid, the count, and the sidecar's ticket.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, key in ipairs(KEYS) do
  local ticket, lifetime, count = unpack(ARGV, 3 * i - 2, 3 * i)
  redis.call('HSET', key, string.match(ticket, '^[^/]*'), string.format('%.0f %s %s', now + lifetime, count, ticket))
  if redis.call('PTTL', key) < tonumber(lifetime) then redis.call('PEXPIRE', key, lifetime) end
end
return false
