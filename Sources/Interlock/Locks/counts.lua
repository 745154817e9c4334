-- Tells how many callers wait in one sidecar, of locks that somebody looks at.
--
-- KEYS  the counts of each lock
-- ARGV  1 the sidecar's ticket for it  2 for how many ms it will go on telling  3 how many wait behind it;  then the same of the next
-- Reply nil
--
-- Counts are a hash: each sidecar with the millisecond until which it tells, the count, and its ticket.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, key in ipairs(KEYS) do
  local ticket, lasts, count = unpack(ARGV, 3 * i - 2, 3 * i)
  redis.call('HSET', key, string.match(ticket, '^[^/]*'), string.format('%.0f %s %s', now + lasts, count, ticket))
  if redis.call('PTTL', key) < tonumber(lasts) then redis.call('PEXPIRE', key, lasts) end
end
return false
