-- Gives back what a call took from its limits and did not use.
--
-- KEYS  the counters
-- ARGV  for each: how much, when its window ends in ms of Redis' time, the window's length in ms
-- Reply how many counters took it back; a window that has ended since has nothing to take back
--
-- Guarantees that no window but the one it was taken from is credited.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local returned = 0
for k = 1, #KEYS do
  local ttl = redis.call('PTTL', KEYS[k])
  if ttl > 0 and math.abs(now + ttl - tonumber(ARGV[3 * k - 1])) * 2 < tonumber(ARGV[3 * k]) then
    local amount = math.min(tonumber(ARGV[3 * k - 2]), tonumber(redis.call('GET', KEYS[k])))
    if amount > 0 then redis.call('DECRBY', KEYS[k], amount) end
    returned = returned + 1
  end
end
return returned
