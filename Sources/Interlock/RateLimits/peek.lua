-- Reads counters and changes nothing. Whoever has written a counter by hand may have made it any number: beyond `most_exact`
-- it is told as that, since no reply holds more than 64 bits.
--
-- KEYS  the counters
-- ARGV  of each: algorithm (0 fixed, 1 sliding, 2 gcra), capacity, limit, window in ms
-- Reply of each in turn: what is taken, ms until it is whole again, and in how many microseconds a call of cost 1 could be
--       granted

local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local reply = {}
for k = 1, #KEYS do
  local a = 4 * k - 3
  local algorithm, capacity = ARGV[a], tonumber(ARGV[a + 1])
  local limit, window = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]) * 1000
  local taken, reset, wait = 0, 0, 0
  if algorithm == '0' then
    taken = tonumber(redis.call('GET', KEYS[k]) or 0) or 0
    -- As `batch.lua` would have it end.
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
  if taken ~= taken then taken = most_exact end
  taken = math.max(-most_exact, math.min(taken, most_exact))
  reply[3 * k - 2], reply[3 * k - 1], reply[3 * k] = taken, reset, wait
end
return reply
