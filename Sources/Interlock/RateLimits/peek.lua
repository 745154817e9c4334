-- needs: max_exact, counters
-- Reads counters.
--
-- KEYS  the counters
-- ARGV  for each counter: algorithm (0 fixed, 1 sliding, 2 gcra), capacity, limit, window in ms
-- Reply for each counter: its usage, the ms until its full capacity is available, and the microseconds until a call of
--       cost 1 could be granted
--
-- Guarantees that nothing changes, and that the usage is at most `max_exact`: a counter that was set by hand may hold
-- any number, but no integer reply holds more than 64 bits.

local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local reply = {}
for k = 1, #KEYS do
  local algorithm, capacity, limit, window = unpack(ARGV, 4 * k - 3, 4 * k)
  capacity, limit, window = tonumber(capacity), tonumber(limit), tonumber(window) * 1000
  local taken, reset, wait = 0, 0, 0
  if algorithm == '0' then
    taken = tonumber(redis.call('GET', KEYS[k]) or 0) or 0
    -- The time to live that `batch.lua` would set.
    local ttl, last = redis.call('PTTL', KEYS[k]), math.max(1, window / 1000 - 1)
    if ttl == -1 or ttl > last then ttl = last end
    if ttl >= 0 then reset = ttl + 1 end
    if taken >= capacity then wait = reset * 1000 end
  elseif algorithm == '1' then
    local log = open_log(KEYS[k], window, time)
    taken, reset = log.total, math.ceil(log.reset(0) / 1000)
    wait = log.wait(taken + 1 - capacity)
  else
    local cells = open_cells(limit, window, redis.call('GET', KEYS[k]), time, capacity, KEYS[k], true)
    if not cells then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not an arrival time') end
    taken, reset = cells.taken(capacity), math.ceil(cells.wait(0, 0) / 1000)
    wait = cells.wait(0, capacity - 1)
  end
  if taken ~= taken then taken = max_exact end
  taken = math.max(-max_exact, math.min(taken, max_exact))
  reply[3 * k - 2], reply[3 * k - 1], reply[3 * k] = taken, reset, wait
end
return reply
