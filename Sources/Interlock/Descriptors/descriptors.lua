-- needs: most_exact, batch, reply
-- Evaluates a batch of requests of one domain against the limits of their descriptors, in order, and takes exactly what
-- it grants.
--
-- KEYS  the counters: see `batch.lua`; each has a limit of its own
-- ARGV  1 the limits, and what is asked of each counter: see `batch.lua`
--       2 in MessagePack: the mode (0: all counters or none, 1: each counter independently, 2: as 1, and refused
--         requests also count); for each run of equal requests: count, number of charges; for each charge: the
--         counter's number from 0, the cost, whether it is a refund (1 or 0)
--       3 whether any charge is a refund (1 or 0)
-- Reply see `reply.lua`; for each charge, how many of the run's requests its counter had room for, and in how many
--       microseconds it would have room for one more, or 0
--
-- Guarantees:
-- A request takes from all its counters or from none, unless the mode makes them independent.
-- No counter holds more than its limit, unless refused requests count, which they do up to `most_exact`.
-- No more is refunded than was taken.
-- Shadow limits refuse no request: they count granted requests up to their capacity.

local gives_back = ARGV[3] == '1'
if gives_back then is_room_for_all = false end
if is_room_for_all then return take_and_reply() end

-- Usage of each counter after this batch, and the reply's details of shadows and charges.
local capacity, used, shadow, details = {}, {}, {}, {}
for k = 1, #KEYS do
  capacity[k], used[k], details[k] = batch[limit[k] + 1], before[k], 0
  shadow[k] = batch[limit[k] + 4] == 1
end
local runs = cmsgpack.unpack(ARGV[2])
local mode, r, length = runs[1], 2, #KEYS

local function settle(k, cost, is_given_back, taken, fits, count)
  used[k] = math.max(0, math.min(used[k] + (is_given_back and -cost or cost) * taken, math.max(before[k], most_exact)))
  if shadow[k] then details[k] = details[k] + count - fits end
  details[length + 1], details[length + 2] = fits, 0
  if fits < count then details[length + 2] = math.max(1, wait_for(k, used[k], math.min(cost, capacity[k]))) end
  length = length + 2
end

while r <= #runs do
  local count, last = runs[r], r + 1 + 3 * runs[r + 1]
  local granted, fitting = count, {}
  for c = r + 2, last, 3 do
    local k, cost, is_given_back = runs[c] + 1, runs[c + 1], runs[c + 2] == 1
    local fits = count
    if not is_given_back then
      if cost > 0 then
        fits = math.max(0, math.min(count, floor((capacity[k] - used[k]) / cost)))
      elseif used[k] > capacity[k] then
        fits = 0
      end
    end
    if mode == 0 then
      fitting[c] = fits
      if not shadow[k] and fits < granted then granted = fits end
    else
      settle(k, cost, is_given_back, mode == 2 and count or fits, fits, count)
    end
  end
  if mode == 0 then
    for c = r + 2, last, 3 do
      local k = runs[c] + 1
      local taken = shadow[k] and math.min(granted, fitting[c]) or granted
      settle(k, runs[c + 1], runs[c + 2] == 1, taken, fitting[c], count)
    end
  end
  r = last + 1
end
return take_and_reply(used, details)
