-- Takes a lock from whoever holds it, and gives it to the next who waits.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants
-- ARGV  1 what a wake channel's name begins with  2 the event channel
--       3 the event, up to the time  4 the event, after the time  5 the fence of the grant that is to end; empty: any
-- Reply 1 broken; 0 there is no lease: no such key, not a string, or without a ttl; or none with that fence
--
-- Guarantees that only strings with a ttl are ever deleted. The next grant has a higher fence, as every grant has.

if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('PTTL', KEYS[1]) < 0 then return 0 end

-- Whether a grant with that fence holds it, of a group as one of several.
local function is_held_under(fence)
  if not group_places(redis.call('GET', KEYS[1])) then return redis.pcall('GET', KEYS[2]) == fence end
  local grants = redis.call('HGETALL', KEYS[5])
  for place = 2, #grants, 2 do
    if grants[place] == fence then return true end
  end
  return false
end

if ARGV[5] ~= '' and not is_held_under(ARGV[5]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[4], KEYS[5])
local time = redis.call('TIME')
redis.call('PUBLISH', ARGV[2], ARGV[3] .. string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) .. ARGV[4])
if redis.call('EXISTS', KEYS[3]) == 1 then open_queue(ARGV[1], '').hand_over() end
return 1
