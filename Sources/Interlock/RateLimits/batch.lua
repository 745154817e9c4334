-- needs: counters
-- Opens the counters of a batch of requests. Shared by the scripts that evaluate batches.
--
-- KEYS  the counters: those of limits that apply to all requests, then those of each subject (a tenant) in turn
-- ARGV  whole numbers in MessagePack, which costs a fraction of separate arguments
--       1 the number of limits that apply to all requests, the number of limits per subject;
--         for each limit: algorithm (0 fixed, 1 sliding, 2 gcra, 3 aligned), capacity, limit, window in ms, shadow (1
--         or 0); a base time in ms of the Redis clock; for each counter, the end of its fixed window in ms, where 1 is
--         the base time (0: unknown); for each counter, the total cost requested from it

local batch = cmsgpack.unpack(ARGV[1])
local wide, narrow = batch[1], batch[2]
local floor, call = math.floor, redis.call
local clock = call('TIME')
local time = clock[1] * 1000000 + clock[2]
-- The index of the base time. The counters' ends follow it, and then the cost requested from each counter.
local ends = 3 + 5 * (wide + narrow)
local base = batch[ends] - 2 - floor(time / 1000)
local asked = ends + #KEYS

local values
if #KEYS <= 4000 then
  values = call('MGET', unpack(KEYS))
else
  values = {}
  call_in_parts('MGET', nil, KEYS, function(first, part)
    for i = 1, #part do values[first + i - 1] = part[i] end
  end)
end

-- For each counter: the index of its limit in the batch, and its usage before this batch. `ttl` holds the remaining ms
-- of fixed windows, and `opened` holds the other counters. The last ms still counts: a window ends one ms later.
local limit, before, ttl, opened = {}, {}, {}, {}
local has_room_for_all = true
local d = -2
for k = 1, #KEYS do
  d = d + 5
  -- After the last limit comes the next subject.
  if d == ends then d = ends - 5 * narrow end
  local value, taken, window = values[k], 0, batch[d + 3]
  if batch[d] == 0 then
    if value then taken = tonumber(value) end
    if not taken then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not a number') end
    -- The last ms counts, so the counter ends one window after its first ms.
    local last = window > 1 and window - 1 or 1
    local left = last
    -- The end of a window does not change, even if all its calls were refunded. Then the key is "0".
    if taken > 0 or value == '0' then
      -- If the key was deleted and its window began again, the caller passes the end of the deleted window until that
      -- end has passed.
      left = batch[ends + k] + base
      if taken == 0 or batch[ends + k] == 0 or left <= 0 or left > last then
        left = call('PTTL', KEYS[k])
        -- The key has no expiry, the window was longer, or the clock was set back.
        if left < 0 or left > last then
          left = last
          call('PEXPIRE', KEYS[k], left)
        end
      end
    end
    ttl[k] = left
  elseif batch[d] == 1 then
    opened[k] = open_log(KEYS[k], window * 1000, time)
    taken = opened[k].total
  elseif batch[d] == 3 then
    opened[k] = open_aligned(window, value, time)
    if not opened[k] then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' does not belong to an aligned window') end
    taken = opened[k].count
  else
    opened[k] = open_cells(batch[d + 2], window * 1000, value, time, batch[d + 1], KEYS[k])
    if not opened[k] then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not an arrival time') end
    taken = opened[k].taken(batch[d + 1])
  end
  limit[k], before[k] = d, taken
  if taken + batch[asked + k] > batch[d + 1] then has_room_for_all = false end
end

-- Returns the microseconds until counter `k` can grant `cost`, if its usage is now `used` and no other call takes from
-- it.
local function wait_for(k, used, cost)
  local capacity = batch[limit[k] + 1]
  if ttl[k] then return (ttl[k] + 1) * 1000 end
  if opened[k].now then return opened[k].wait(used + cost - capacity) end
  return opened[k].wait(used - before[k], capacity - cost)
end
