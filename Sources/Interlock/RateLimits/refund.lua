-- needs: counters
-- Refunds amounts that a call took from its limits and did not use.
--
-- KEYS  the counters
-- ARGV  for each counter: algorithm (0 fixed, 1 sliding, 2 gcra), amount, since when, limit, window in ms, capacity;
--       since when is the end of the fixed window in ms of Redis's time, the microsecond of the grant in a sliding log,
--       or the microsecond at which a gcra limit would have recovered without the refund
-- Reply the number of counters that were credited; a window that has ended since is not credited
--
-- Guarantees that only the window from which the amount was taken is credited, by no more than was taken.

local clock = redis.call('TIME')
local time = clock[1] * 1000000 + clock[2]
local returned = 0
for k = 1, #KEYS do
  local algorithm, amount, since, limit, window, capacity = unpack(ARGV, 6 * k - 5, 6 * k)
  amount, since, limit, window = tonumber(amount), tonumber(since), tonumber(limit), tonumber(window)
  local is_returned = false
  if algorithm == '0' then
    local ttl = redis.call('PTTL', KEYS[k])
    if ttl > 0 and math.abs(time / 1000 + ttl + 1 - since) * 2 < window then
      amount = math.min(amount, tonumber(redis.call('GET', KEYS[k])) or 0)
      if amount > 0 then redis.call('DECRBY', KEYS[k], amount) end
      is_returned = true
    end
  elseif algorithm == '1' then
    is_returned = open_log(KEYS[k], window * 1000, time).refund(since, amount)
  else
    local value = redis.call('GET', KEYS[k])
    local cells = value and open_cells(limit, window * 1000, value, time, tonumber(capacity), KEYS[k])
    if cells and time < since then
      cells.refund(KEYS[k], amount, since - time)
      is_returned = true
    end
  end
  if is_returned then returned = returned + 1 end
end
return returned
