-- Publishes an event with the current time.
--
-- KEYS  none
-- ARGV  1 the event channel  2 the event's JSON, up to the value of its last field, at_ms
-- Reply the time in ms
--
-- Guarantees that the events of all sidecars take their times from one clock.

local channel, event = unpack(ARGV)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('PUBLISH', channel, event .. string.format('%.0f', now) .. '}')
return now
