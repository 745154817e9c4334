-- needs: counters
-- Answers CL.THROTTLE like redis-cell, except for fractions: only the reply is rounded, and seconds are rounded up.
--
-- KEYS  1 the arrival time
-- ARGV  1 capacity (max_burst + 1)  2 count  3 period in microseconds  4 quantity
-- Reply {limited (1 or 0), limit, remaining, seconds until it could be granted (-1: it was, or never can be), seconds
--       until the full capacity is available}
--
-- Guarantees that a call that is refused, or has quantity 0, takes nothing.

local capacity, count, period, quantity =
  tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local cells = open_cells(count, period, redis.call('GET', KEYS[1]), time, capacity, KEYS[1], quantity == 0)
if not cells then return redis.error_reply('ERR the value at ' .. KEYS[1] .. ' is not an arrival time') end

local taken = cells.taken(capacity)
local limited, retry = taken + quantity > capacity, -1
if limited then
  if quantity <= capacity then retry = math.ceil(cells.wait(0, capacity - quantity) / 1000000) end
  quantity = 0
end
if quantity > 0 or cells.needs_write then cells.write(KEYS[1], quantity) end
return {
  limited and 1 or 0, capacity, math.max(0, capacity - taken - quantity), retry,
  math.ceil(cells.wait(quantity, 0) / 1000000),
}
