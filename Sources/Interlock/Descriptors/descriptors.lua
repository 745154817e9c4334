-- Judges a batch of requests of one domain against the limits of their descriptors, in order, and takes exactly what it grants.
--
-- KEYS  and the first argument: see `batch.lua`; each counter has a limit of its own
-- ARGV  2 in MessagePack: how requests take (0: from all their counters or none, 1: from each for itself, 2: so, and what is refused
--         counts all the same); of each run of equal requests: count, how many charges; of each charge: the counter's number from 0,
--         how much, whether that is given back (1 or 0)
--       3 whether anything is given back (1 or 0)
-- Reply see `reply.lua`; of each charge how many of the run's requests its counter had room for, and in how many microseconds it would
--       have for one more, or 0
--
-- Guarantees that a request takes from all its counters or from none, unless each is for itself; that no counter holds more than its
-- limit, unless what is refused counts, which it does up to `most_exact`; that nothing is given back that was not taken; and that
-- shadows refuse nobody: of what was granted they take what they have room for.

if ARGV[3] == '1' then is_room_for_all = false end

-- Not everybody can be granted: goes through the runs in order. Returns what is used of each counter afterwards, and what the
-- reply tells of shadows and charges.
local function judge()
  local capacity, used, shadow, told_last = {}, {}, {}, {}
  for k = 1, #KEYS do
    capacity[k], used[k], told_last[k] = batch[limit[k] + 1], before[k], 0
    shadow[k] = batch[limit[k] + 4] == 1
  end
  local runs = cmsgpack.unpack(ARGV[2])
  local mode, r, length = runs[1], 2, #KEYS

  local function settle(k, cost, is_given_back, taken, fits, count)
    used[k] = math.max(0, math.min(used[k] + (is_given_back and -cost or cost) * taken, math.max(before[k], most_exact)))
    if shadow[k] then told_last[k] = told_last[k] + count - fits end
    told_last[length + 1], told_last[length + 2] = fits, 0
    if fits < count then told_last[length + 2] = math.max(1, wait_for(k, used[k], math.min(cost, capacity[k]))) end
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
  return used, told_last
end

local used, told_last
if not is_room_for_all then used, told_last = judge() end
