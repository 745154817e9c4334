-- Publishes an event with the time of now.
--
-- ARGV  1 the event channel  2 the event's JSON, up to the value of its last field, at_ms
-- Reply the time in ms
--
-- Guarantees that the events of all sidecars have their times from one clock.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('PUBLISH', ARGV[1], ARGV[2] .. string.format('%.0f', now) .. '}')
return now
