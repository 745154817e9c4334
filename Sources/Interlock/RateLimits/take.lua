-- needs: most_exact, batch, reply
-- Evaluates a batch of requests against the limits of a service or of a domain's descriptors, in order, and takes
-- exactly what it grants.
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
-- Refused requests, if they count, count up to `most_exact`. A refund never exceeds what was taken.
-- No later call overtakes one that waits for the same counter.
-- Shadow limits refuse no request: they count granted requests up to their capacity.

if ARGV[3] then is_room_for_all = false end
if is_room_for_all then return take_and_reply() end

local max, min = math.max, math.min
-- For each counter: its usage after this batch, and how long waiting requests block it. `details` is the part of the
-- reply about shadow limits and runs.
local capacity, used, shadow, blocked, details = {}, {}, {}, {}, {}
for k = 1, #KEYS do
  capacity[k], used[k], details[k] = batch[limit[k] + 1], before[k], 0
  shadow[k] = batch[limit[k] + 4] == 1
end

local function take(k, amount) used[k] = max(0, min(used[k] + amount, max(before[k], most_exact))) end

local runs = cmsgpack.unpack(ARGV[2])
local mode, r, length = runs[1], 2, #KEYS
-- The number of requests that fit into a charge, and the wait for one more, by the charge's index in `runs`.
local fits, wait = {}, {}

-- Notes how long one more request has to wait for the charge at `c`.
local function note_wait(c, k, cost, count)
  wait[c] = 0
  if fits[c] < count then wait[c] = max(1, wait_for(k, used[k], min(cost, capacity[k])), blocked[k] or 0) end
end

while r <= #runs do
  local count, waits, first, last = runs[r], runs[r + 1] == 1, r + 3, r + 2 + 2 * runs[r + 2]
  local granted, fewest = count, count
  for c = first, last, 2 do
    local k, cost, fit = runs[c] + 1, runs[c + 1], count
    if blocked[k] then
      fit = 0
    elseif cost > 0 then
      fit = max(0, min(count, floor((capacity[k] - used[k]) / cost)))
    elseif cost == 0 and used[k] > capacity[k] then
      fit = 0
    end
    fits[c] = fit
    if fit < fewest then fewest = fit end
    if mode > 0 then
      take(k, cost * (mode == 2 and count or fit))
      note_wait(c, k, cost, count)
    elseif fit < granted and not shadow[k] then
      granted = fit
    end
  end
  length = length + 1
  details[length] = fewest == count and 1 or 0
  for c = first, last, 2 do
    local k, cost = runs[c] + 1, runs[c + 1]
    if mode == 0 then
      take(k, cost * (shadow[k] and min(granted, fits[c]) or granted))
      note_wait(c, k, cost, count)
      if waits and fits[c] == granted and granted < count and not shadow[k] then blocked[k] = wait[c] end
    end
    if shadow[k] then details[k] = details[k] + max(0, granted - fits[c]) end
    if fewest < count then
      details[length + 1], details[length + 2] = fits[c], wait[c]
      length = length + 2
    end
  end
  r = last + 1
end
return take_and_reply(used, details)
