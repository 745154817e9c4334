-- Takes a lock, or extends it for the owner that already has it.
--
-- KEYS  1 lock  2 fence  3 queue
-- ARGV  1 token  2 ttl in ms
--       3 "take", the default: whoever asks may have it; "own": only its present owner (others wait before the asker)
--       and of somebody who waits:
--       4 the asking sidecar's ID
--       5 for how many ms the sidecar waits when it is refused
--       6 for how many ms others of the sidecar go on waiting when it is granted (0: none; -1: it had no ticket)
-- Reply {1, fence} granted; {2, fence} extended for the same owner; {0, ttl in ms, -1 without end} held by another
--
-- Guarantees that at most one token is in the lock, that every grant's fence is higher than all before it, and that a
-- refused waiter's ticket stands before any later release can look for it.

-- A day, so that no counter is immortal; Redis' clock alone keeps fences rising after it.
local fence_ttl = math.max(86400000, tonumber(ARGV[2]))

local function mint()
  local time = redis.call('TIME')
  local fence = time[1] * 1000000 + time[2]
  local last = redis.pcall('SET', KEYS[2], string.format('%.0f', fence), 'PX', fence_ttl, 'GET')
  if type(last) == 'table' then
    redis.call('DEL', KEYS[1])
    return nil, last
  end
  last = last and tonumber(last)
  if last and last >= fence then
    fence = last + 1
    redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', fence_ttl)
  end
  return fence
end

local function wait(milliseconds)
  local time = redis.call('TIME')
  redis.call('ZADD', KEYS[3], time[1] * 1000 + math.floor(time[2] / 1000) + milliseconds, ARGV[4])
  if redis.call('PTTL', KEYS[3]) < milliseconds then
    redis.call('PEXPIRE', KEYS[3], milliseconds)
  end
end

if ARGV[3] ~= 'own' and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local fence, failure = mint()
  if failure then return failure end
  local others = tonumber(ARGV[6] or -1)
  if others > 0 then
    wait(others)
  elseif others == 0 then
    redis.call('ZREM', KEYS[3], ARGV[4])
  end
  return {1, fence}
end

if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  local fence = tonumber(redis.call('GET', KEYS[2]) or '')
  if not fence then
    local failure
    fence, failure = mint()
    if failure then return failure end
  end
  return {2, fence}
end

if ARGV[5] then wait(tonumber(ARGV[5])) end
return {0, redis.call('PTTL', KEYS[1])}
