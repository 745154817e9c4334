-- Judges a batch of calls of one service against its limits, in order, and takes exactly what it grants.
--
-- KEYS  the counters: service-wide ones, then those of each subject in turn
-- ARGV  whole numbers in MessagePack, which costs a fraction of as many arguments
--       1 how many limits are service-wide, how many are per subject;
--         of each of these: algorithm (0 fixed, 1 sliding, 2 gcra), capacity, limit, window in ms, shadow (1 or 0);
--         a time in ms of Redis' clock; of each counter how many ms after it its fixed window ends, from 1, or 0: that is not known;
--         of each counter what all calls together ask of it
--       2 of each run of equal calls: count, cost, waits (1 or 0), subject (its number from 1, or 0)
-- Reply whole numbers in MessagePack: time in microseconds; whether every call was granted, and by shadows too (1 or 0);
--       of each counter: what was taken before, ms until it is whole again after this;
--       unless every call was granted: of each counter how many calls its shadow would refuse; of each run how many were granted,
--       and, when that is not all, the refusing counter's number from 0, and in how many microseconds one of them could be granted
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
-- What was told of the windows' ends stands from here on, and is told from this moment on; then what is asked.
local told = 3 + 5 * (wide + narrow)
local since = batch[told] - 1 - floor(time / 1000)
local asked = told + #KEYS

local values
if #KEYS <= 4000 then
  values = call('MGET', unpack(KEYS))
else
  values = {}
  call_in_parts('MGET', nil, KEYS, function(first, reply)
    for place = 1, #reply do values[first + place - 1] = reply[place] end
  end)
end

-- Of each counter: where its limit stands in the batch, and what was taken before. `ttl` is of fixed windows, in ms; `opened` has
-- the others.
local limit, before, ttl, opened = {}, {}, {}, {}
local is_room_for_all = true
local d = -2
for k = 1, #KEYS do
  d = d + 5
  -- After the last limit comes the next subject.
  if d == told then d = told - 5 * narrow end
  local value, taken, window = values[k], 0, batch[d + 3]
  if batch[d] == 0 then
    if value then taken = tonumber(value) end
    if not taken then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not a number') end
    local left = window
    if taken > 0 then
      -- A window does not change its end. Of one that was deleted meanwhile, and begun anew, an earlier end is told until then.
      left = batch[told + k] + since
      if batch[told + k] == 0 or left <= 0 or left > 2 * window then
        left = call('PTTL', KEYS[k])
        -- Without an end, or of a clock that was set back; not of a sidecar whose window is a little longer.
        if left == -1 or left > 2 * window then
          call('PEXPIRE', KEYS[k], window)
          left = window
        end
      end
    end
    ttl[k] = left
  elseif batch[d] == 1 then
    opened[k] = open_log(KEYS[k], window * 1000, time)
    taken = opened[k].total
  else
    opened[k] = open_cells(batch[d + 2], window * 1000, value, time, batch[d + 1])
    if not opened[k] then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not an arrival time') end
    taken = opened[k].taken(batch[d + 1])
  end
  limit[k], before[k] = d, taken
  if taken + batch[asked + k] > batch[d + 1] then is_room_for_all = false end
end

-- Not everybody can be granted: goes through the runs in order. Returns what is used of each counter afterwards, and what the
-- reply tells of shadows and runs.
local function judge()
  local capacity, used, shadow, blocked, told_last = {}, {}, {}, {}, {}
  local has_shadows = false
  for k = 1, #KEYS do
    capacity[k], used[k], told_last[k] = batch[limit[k] + 1], before[k], 0
    if batch[limit[k] + 4] == 1 then shadow[k], has_shadows = true, true end
  end

  -- In how many microseconds counter `k` would grant `cost`, if nobody else takes of it.
  local function wait_for(k, cost)
    if ttl[k] then return (ttl[k] + 1) * 1000 end
    if opened[k].wait and opened[k].now then return opened[k].wait(used[k] + cost - capacity[k]) end
    return opened[k].wait(used[k] - before[k], capacity[k] - cost)
  end

  local runs = cmsgpack.unpack(ARGV[2])
  local length = #KEYS
  for r = 1, #runs, 4 do
    local count, cost, waits, subject = runs[r], runs[r + 1], runs[r + 2], runs[r + 3]
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
    length = length + 1
    told_last[length] = granted
    if granted < count then
      for i = 1, own do
        local k = i <= wide and i or i + shift
        if not shadow[k] and (blocked[k] or capacity[k] - used[k] < cost) then
          local own_wait = math.max(1, wait_for(k, cost), blocked[k] or 0)
          if waits == 1 then blocked[k] = own_wait end
          if own_wait > wait then binding, wait = k, own_wait end
        end
      end
      told_last[length + 1], told_last[length + 2] = binding - 1, wait
      length = length + 2
    end
    if has_shadows then
      for i = 1, own do
        local k = i <= wide and i or i + shift
        if shadow[k] then
          local fits = math.max(0, math.min(granted, floor((capacity[k] - used[k]) / cost)))
          used[k], told_last[k] = used[k] + fits * cost, told_last[k] + granted - fits
        end
      end
    end
  end
  return used, told_last
end

local used, told_last
if not is_room_for_all then used, told_last = judge() end

local reply, length = {time, is_room_for_all and 1 or 0}, 2
for k = 1, #KEYS do
  local taken = used and used[k] - before[k] or batch[asked + k]
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
  reply[length + 1], reply[length + 2] = before[k], reset
  length = length + 2
end
if told_last then
  for place = 1, #told_last do reply[length + place] = told_last[place] end
end
return cmsgpack.pack(reply)
