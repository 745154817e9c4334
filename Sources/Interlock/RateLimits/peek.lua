-- Reads counters and changes nothing.
--
-- KEYS  the counters
-- Reply {count, ttl in ms} of each in turn; a window that has not begun: 0, -2

local reply = {}
for k = 1, #KEYS do
  reply[#reply + 1] = tonumber(redis.call('GET', KEYS[k]) or 0)
  reply[#reply + 1] = redis.call('PTTL', KEYS[k])
end
return reply
