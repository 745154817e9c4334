-- needs: max_exact, batch, reply
-- Evaluates a batch of requests, in order, against the limits of a service or of a domain's descriptors, and takes
-- exactly the granted amounts.
--
-- KEYS  the counters: see `batch.lua`
-- ARGV  1 the limits, and the cost requested from each counter: see `batch.lua`
--       2 in MessagePack: the mode (0: a request takes from all its counters or from none, 1: from each independently,
--         2: as 1, and refused requests also count); for each run of equal requests: count, waits (1 or 0), number of
--         charges; for each charge: the counter's index from 0, the cost (less than 0: a refund)
--       3 only if any charge is a refund
-- Reply see `reply.lua`; for each run: 1 if each charge had room for all its requests, otherwise 0 and for each charge:
--       the number of requests that fit, and the microseconds until one more would fit
--
-- Guarantees:
-- A request takes from all its limits or from none, unless the mode makes them independent.
-- A fixed window never holds more than its limit, and ends one window after its first call.
-- By the times in a sliding log, no closed window holds more than the limit.
-- A gcra limit grants no more than its capacity at once, and no more than limit and burst in a window.
-- Refused requests, if they count, count up to `max_exact`. A refund never exceeds what was taken.
-- No later call overtakes a call that waits for the same counter.
-- Shadow limits refuse no request: they count granted requests up to their capacity.

if ARGV[3] then has_room_for_all = false end
if has_room_for_all then return take_and_reply() end

local max, min = math.max, math.min
-- Usage of each counter after this batch, how long it is blocked by requests that wait, and the reply's details of
-- shadows and runs.
local capacity, used, shadow, blocked, details = {}, {}, {}, {}, {}
for k = 1, #KEYS do
  capacity[k], used[k], details[k] = batch[limit[k] + 1], before[k], 0
  shadow[k] = batch[limit[k] + 4] == 1
end

-- Counts up to `max_exact`. A refund stops at 0. A counter that was written by hand may be beyond either.
local function take(k, amount)
  local total = used[k] + amount
  if total > max_exact then
    total = max(used[k], max_exact)
  elseif amount < 0 and total < 0 then
    total = min(used[k], 0)
  end
  used[k] = total
end

local function wait_after(k, cost) return max(1, wait_for(k, used[k], min(cost, capacity[k])), blocked[k] or 0) end

local runs = cmsgpack.unpack(ARGV[2])
local mode, r, length = runs[1], 2, #KEYS
-- For each charge of a run: how many requests fit, and the wait for one more.
local fits, wait = {}, {}
while r <= #runs do
  local count, waits, charges, c = runs[r], runs[r + 1] == 1, runs[r + 2], r + 3
  local granted, fewest = count, count
  for i = 1, charges do
    local k, cost, fit = runs[c] + 1, runs[c + 1], count
    c = c + 2
    if blocked[k] then
      fit = 0
    elseif cost > 0 then
      local room = capacity[k] - used[k]
      if room < cost then fit = 0 elseif room < cost * count then fit = floor(room / cost) end
    elseif cost == 0 and used[k] > capacity[k] then
      fit = 0
    end
    fits[i], wait[i] = fit, 0
    if fit < fewest then fewest = fit end
    if mode > 0 then
      local taken = mode == 2 and count or fit
      if taken > 0 then take(k, cost * taken) end
      if fit < count then wait[i] = wait_after(k, cost) end
    elseif fit < granted and not shadow[k] then
      granted = fit
    end
  end
  length, c = length + 1, r + 3
  details[length] = fewest == count and 1 or 0
  for i = 1, charges do
    local k, cost, fit = runs[c] + 1, runs[c + 1], fits[i]
    c = c + 2
    if mode == 0 then
      local taken = shadow[k] and fit < granted and fit or granted
      if taken > 0 then take(k, cost * taken) end
      if fit < count then
        wait[i] = wait_after(k, cost)
        if waits and fit == granted and not shadow[k] then blocked[k] = wait[i] end
      end
    end
    if fit < granted then details[k] = details[k] + granted - fit end
    if fewest < count then
      details[length + 1], details[length + 2] = fit, wait[i]
      length = length + 2
    end
  end
  r = c
end
return take_and_reply(used, details)
