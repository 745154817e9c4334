-- Frees a lock on this server that the token holds.
--
-- KEYS  1 lock  2 fence
-- ARGV  1 token  2 "unrecorded": only a hold whose fence was not recorded, which no lease can rest on; a number: only a hold
--       under this recorded fence; otherwise nothing
-- Reply 1 freed; 0 the lock is not held by that token, or not in that way
--
-- Guarantees that no other owner's lease is touched, nor, given a fence, a later lease of the same owner: each grant here has
-- a higher number.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] then
  local number = tonumber(redis.call('GET', KEYS[2]) or '')
  local is_recorded = not number or number % 2 == 1
  if ARGV[2] == 'unrecorded' and is_recorded then return 0 end
  if ARGV[2] ~= 'unrecorded' and number and number ~= tonumber(ARGV[2]) then return 0 end
end
return redis.call('DEL', KEYS[1])
