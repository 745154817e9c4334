-- Takes a lock from whoever holds it, and wakes the sidecars that wait for it.
--
-- KEYS  1 lock  2 queue
-- ARGV  1 what a wake channel's name begins with  2 the wake message  3 the event channel
--       4 the event, up to the time  5 the event, after the time
-- Reply 1 broken; 0 there is no lease: no such key, not a string, or without a ttl
--
-- Guarantees that only strings with a ttl are ever deleted. The next grant has a higher fence, as every grant has.

if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('PTTL', KEYS[1]) < 0 then return 0 end
redis.call('DEL', KEYS[1])
for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  redis.call('PUBLISH', ARGV[1] .. id, ARGV[2])
end
local time = redis.call('TIME')
redis.call('PUBLISH', ARGV[3], ARGV[4] .. string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) .. ARGV[5])
return 1
