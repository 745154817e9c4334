-- Judges a batch of calls of one service against its fixed windows, in order, and takes exactly what it grants.
--
-- KEYS  the counters: service-wide ones, then those of each subject in turn
-- ARGV  1 how many limits are service-wide  2 how many are per subject
--       then limit and window in ms of each of these
--       then for each run of equal calls: count, cost, waits (1 or 0), subject (its number from 1, or 0)
-- Reply {time in ms, then count before and ttl in ms of each counter,
--        then how many were granted and the refusing counter's number from 0 of each run}
--
-- Guarantees that a call takes from all its limits or from none, that no window ever holds more than its limit, that a
-- counter is gone a window after its first call, and that nobody overtakes a call that waits for the same counter.

local wide, narrow = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, window, before, used, ttl, blocked = {}, {}, {}, {}, {}, {}
for k = 1, #KEYS do
  local d = k <= wide and k or wide + (k - wide - 1) % narrow + 1
  limit[k], window[k] = tonumber(ARGV[1 + 2 * d]), ARGV[2 + 2 * d]
  local value = redis.call('GET', KEYS[k])
  if value then
    before[k], ttl[k] = tonumber(value), redis.call('PTTL', KEYS[k])
    if not before[k] then return redis.error_reply('ERR the counter ' .. KEYS[k] .. ' is not a number') end
    if ttl[k] == -1 then
      redis.call('PEXPIRE', KEYS[k], window[k])
      ttl[k] = tonumber(window[k])
    end
  else
    before[k], ttl[k] = 0, tonumber(window[k])
  end
  used[k] = before[k]
end

local runs = {}
for a = 3 + 2 * (wide + narrow), #ARGV, 4 do
  local count, cost, waits, subject = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), ARGV[a + 2] == '1', tonumber(ARGV[a + 3])
  local own = {}
  for k = 1, wide do own[#own + 1] = k end
  if subject > 0 then
    for k = wide + (subject - 1) * narrow + 1, wide + subject * narrow do own[#own + 1] = k end
  end
  local granted = count
  for _, k in ipairs(own) do
    granted = blocked[k] and 0 or math.max(0, math.min(granted, math.floor((limit[k] - used[k]) / cost)))
  end
  local binding = 1
  if granted > 0 then
    for _, k in ipairs(own) do used[k] = used[k] + granted * cost end
  end
  if granted < count then
    local longest = -1
    for _, k in ipairs(own) do
      if blocked[k] or limit[k] - used[k] < cost then
        if waits then blocked[k] = true end
        if ttl[k] > longest then binding, longest = k, ttl[k] end
      end
    end
  end
  runs[#runs + 1] = granted
  runs[#runs + 1] = binding - 1
end

local time = redis.call('TIME')
local reply = {time[1] * 1000 + math.floor(time[2] / 1000)}
for k = 1, #KEYS do
  local taken = used[k] - before[k]
  if taken > 0 then
    if before[k] > 0 then
      redis.call('INCRBY', KEYS[k], taken)
    else
      redis.call('SET', KEYS[k], taken, 'PX', window[k])
    end
  end
  reply[#reply + 1] = before[k]
  reply[#reply + 1] = ttl[k]
end
for _, number in ipairs(runs) do reply[#reply + 1] = number end
return reply
