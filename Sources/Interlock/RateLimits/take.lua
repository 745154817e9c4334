-- needs: batch, reply
-- Evaluates a batch of calls of one service against its limits, in order, and takes exactly what it grants.
--
-- KEYS  the counters: see `batch.lua`
-- ARGV  1 the limits, and what is asked of each counter: see `batch.lua`
--       2 in MessagePack, for each run of equal calls: count, cost, waits (1 or 0), subject (its number from 1, or 0)
-- Reply see `reply.lua`; for each run, how many were granted and, if that is not all, the number of the counter that
--       refused, from 0, and in how many microseconds one of the calls could be granted
--
-- Guarantees:
-- A call takes from all its limits or from none.
-- A fixed window never holds more than its limit, and ends one window after its first call.
-- By the times in a sliding log, no closed window holds more than the limit.
-- A gcra limit grants no more than its capacity at once, and no more than limit and burst in a window.
-- No later call overtakes one that waits for the same counter.
-- Shadow limits refuse no call: they count granted calls up to their capacity.

if is_room_for_all then return take_and_reply() end

-- Usage of each counter after this batch, and the reply's details of shadows and runs.
local capacity, used, shadow, blocked, details = {}, {}, {}, {}, {}
local has_shadows = false
for k = 1, #KEYS do
  capacity[k], used[k], details[k] = batch[limit[k] + 1], before[k], 0
  if batch[limit[k] + 4] == 1 then shadow[k], has_shadows = true, true end
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
  details[length] = granted
  if granted < count then
    for i = 1, own do
      local k = i <= wide and i or i + shift
      if not shadow[k] and (blocked[k] or capacity[k] - used[k] < cost) then
        local own_wait = math.max(1, wait_for(k, used[k], cost), blocked[k] or 0)
        if waits == 1 then blocked[k] = own_wait end
        if own_wait > wait then binding, wait = k, own_wait end
      end
    end
    details[length + 1], details[length + 2] = binding - 1, wait
    length = length + 2
  end
  if has_shadows then
    for i = 1, own do
      local k = i <= wide and i or i + shift
      if shadow[k] then
        local fits = math.max(0, math.min(granted, floor((capacity[k] - used[k]) / cost)))
        used[k], details[k] = used[k] + fits * cost, details[k] + granted - fits
      end
    end
  end
end
return take_and_reply(used, details)
