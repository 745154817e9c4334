-- Releases a lock on this server if the token holds it.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token
--       2 (optional) "unrecorded": only a hold whose fence was not recorded, on which no lease can rely; or a number:
--         only a hold under this recorded fence
-- Reply 1: freed; 0: the token does not hold the lock, or not in that way
--
-- Guarantees that the lease of another owner does not change, nor, given a fence, a later lease of the same owner: each
-- grant here has a higher number.

local token, only = unpack(ARGV)
if redis.call('GET', KEYS[1]) ~= token then return 0 end
if only then
  local number = tonumber(redis.call('GET', KEYS[2]) or '')
  local is_recorded = not number or number % 2 == 1
  if only == 'unrecorded' and is_recorded then return 0 end
  if only ~= 'unrecorded' and number and number ~= tonumber(only) then return 0 end
end
return redis.call('DEL', KEYS[1])
