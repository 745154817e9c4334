-- Judges a batch of calls of one service against its limits, in order, and takes exactly what it grants.
--
-- KEYS  the counters: service-wide ones, then those of each subject in turn
-- ARGV  1 whole numbers in MessagePack, which costs a fraction of as many arguments:
--       how many limits are service-wide, how many are per subject;
--       of each of these: algorithm (0 fixed, 1 sliding, 2 gcra), capacity, limit, window in ms, shadow (1 or 0);
--       a time in ms of Redis' clock; of each counter how many ms after it its fixed window ends, from 1, or 0: that is not known;
--       of each run of equal calls: count, cost, waits (1 or 0), subject (its number from 1, or 0)
-- Reply whole numbers in MessagePack: time in microseconds;
--       of each counter: what was taken before, ms until it is whole again after this, calls that a shadow would refuse;
--       of each run: how many were granted, and of the others the refusing counter's number from 0, and in how many
--       microseconds one of them could be granted
--
-- Guarantees that a call takes from all its limits or from none; that a fixed window never holds more than its limit, and
-- is gone a window after its first call; that by the times in a sliding log no closed window holds more than the limit;
-- that a gcra limit grants no more than its capacity at once and limit and burst in a window; that nobody overtakes a call
-- that waits for the same counter; and that shadows refuse nobody: of what was granted they take what they have room for.

local batch = cmsgpack.unpack(ARGV[1])
local wide, narrow = batch[1], batch[2]
local floor, call = math.floor, redis.call
local clock = call('TIME')
local time = clock[1] * 1000000 + clock[2]
-- What was told of the windows' ends stands from here on, and is told from this moment on.
local told = 3 + 5 * (wide + narrow)
local since = batch[told] - 1 - floor(time / 1000)

local values
if #KEYS <= 4000 then
  values = call('MGET', unpack(KEYS))
else
  values = {}
  call_in_parts('MGET', nil, KEYS, function(first, reply)
    for place = 1, #reply do values[first + place - 1] = reply[place] end
  end)
end

-- `ttl` is of fixed windows, in ms; `opened` has the others.
local capacity, before, used, ttl, opened, shadow, blocked, excess = {}, {}, {}, {}, {}, {}, {}, {}
local has_shadows = false
for k = 1, #KEYS do
  local d = 5 * (k <= wide and k or wide + (k - wide - 1) % narrow + 1) - 2
  local value, taken = values[k], 0
  capacity[k] = batch[d + 1]
  if batch[d] == 0 then
    taken = value and tonumber(value) or 0
    if taken > 0 then
      -- A window does not change its end. Of one that was deleted meanwhile, and begun anew, an earlier end is told until then.
      local left = batch[told + k] + since
      if batch[told + k] == 0 or left <= 0 or left > 2 * batch[d + 3] then
        left = call('PTTL', KEYS[k])
        -- Without an end, or of a clock that was set back; not of a sidecar whose window is a little longer.
        if left == -1 or left > 2 * batch[d + 3] then
          call('PEXPIRE', KEYS[k], batch[d + 3])
          left = batch[d + 3]
        end
      end
      ttl[k] = left
    elseif value and not tonumber(value) then
      return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not a number')
    else
      ttl[k] = batch[d + 3]
    end
  elseif batch[d] == 1 then
    opened[k] = open_log(KEYS[k], batch[d + 3] * 1000, time)
    taken = opened[k].total
  else
    opened[k] = open_cells(batch[d + 2], batch[d + 3] * 1000, value, time, capacity[k])
    if not opened[k] then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not an arrival time') end
    taken = opened[k].taken(capacity[k])
  end
  before[k], used[k] = taken, taken
  if batch[d + 4] == 1 then
    shadow[k], excess[k] = true, 0
    has_shadows = true
  end
end

-- In how many microseconds counter `k` would grant `cost`, if nobody else takes of it.
local function wait_for(k, cost)
  if ttl[k] then return (ttl[k] + 1) * 1000 end
  if opened[k].wait and opened[k].now then return opened[k].wait(used[k] + cost - capacity[k]) end
  return opened[k].wait(used[k] - before[k], capacity[k] - cost)
end

local runs, size = {}, 0
for r = told + #KEYS + 1, #batch, 4 do
  local count, cost, waits, subject = batch[r], batch[r + 1], batch[r + 2], batch[r + 3]
  -- Counter i of this run, from 1, is number i when it is service-wide, and i + shift when it is its subject's.
  local own, shift = wide, 0
  if subject > 0 then own, shift = wide + narrow, (subject - 1) * narrow end
  local granted = count
  for i = 1, own do
    local k = i <= wide and i or i + shift
    if not shadow[k] then
      local room = blocked[k] and 0 or floor((capacity[k] - used[k]) / cost)
      if room < granted then granted = room end
    end
  end
  if granted < 0 then granted = 0 end
  local taken, binding, wait = granted * cost, 1, 0
  for i = 1, own do
    local k = i <= wide and i or i + shift
    if not shadow[k] then used[k] = used[k] + taken end
  end
  if granted < count then
    for i = 1, own do
      local k = i <= wide and i or i + shift
      if not shadow[k] and (blocked[k] or capacity[k] - used[k] < cost) then
        local own_wait = math.max(1, wait_for(k, cost), blocked[k] or 0)
        if waits == 1 then blocked[k] = own_wait end
        if own_wait > wait then binding, wait = k, own_wait end
      end
    end
  end
  if has_shadows then
    for i = 1, own do
      local k = i <= wide and i or i + shift
      if shadow[k] then
        local fits = math.max(0, math.min(granted, floor((capacity[k] - used[k]) / cost)))
        used[k], excess[k] = used[k] + fits * cost, excess[k] + granted - fits
      end
    end
  end
  runs[size + 1], runs[size + 2], runs[size + 3] = granted, binding - 1, wait
  size = size + 3
end

local reply, length = {time}, 1
for k = 1, #KEYS do
  local taken = used[k] - before[k]
  local reset = ttl[k]
  if reset then
    if taken > 0 then
      if before[k] > 0 then
        call('INCRBY', KEYS[k], taken == 1 and '1' or taken)
      else
        call('SET', KEYS[k], taken == 1 and '1' or taken, 'PX', reset)
      end
    end
  elseif opened[k].now then
    reset = math.ceil(opened[k].reset(taken) / 1000)
    opened[k].write(taken)
  else
    reset = math.ceil(opened[k].wait(taken, 0) / 1000)
    if taken > 0 or opened[k].is_cut then opened[k].write(KEYS[k], taken) end
  end
  reply[length + 1], reply[length + 2], reply[length + 3] = before[k], reset, excess[k] or 0
  length = length + 3
end
for place = 1, size do reply[length + place] = runs[place] end
return cmsgpack.pack(reply)
