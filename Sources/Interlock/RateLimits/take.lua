-- Judges a batch of calls of one service against its limits, in order, and takes exactly what it grants.
--
-- KEYS  and the first argument: see `batch.lua`
-- ARGV  2 in MessagePack of each run of equal calls: count, cost, waits (1 or 0), subject (its number from 1, or 0)
-- Reply see `reply.lua`; of each run how many were granted, and, when that is not all, the refusing counter's number from 0, and in
--       how many microseconds one of them could be granted
--
-- Guarantees that a call takes from all its limits or from none; that a fixed window never holds more than its limit, and
-- is gone a window after its first call; that by the times in a sliding log no closed window holds more than the limit;
-- that a gcra limit grants no more than its capacity at once and limit and burst in a window; that nobody overtakes a call
-- that waits for the same counter; and that shadows refuse nobody: of what was granted they take what they have room for.

-- Not everybody can be granted: goes through the runs in order. Returns what is used of each counter afterwards, and what the
-- reply tells of shadows and runs.
local function judge()
  local capacity, used, shadow, blocked, told_last = {}, {}, {}, {}, {}
  local has_shadows = false
  for k = 1, #KEYS do
    capacity[k], used[k], told_last[k] = batch[limit[k] + 1], before[k], 0
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
    told_last[length] = granted
    if granted < count then
      for i = 1, own do
        local k = i <= wide and i or i + shift
        if not shadow[k] and (blocked[k] or capacity[k] - used[k] < cost) then
          local own_wait = math.max(1, wait_for(k, used[k], cost), blocked[k] or 0)
          if waits == 1 then blocked[k] = own_wait end
          if own_wait > wait then binding, wait = k, own_wait end
        end
      end
      told_last[length + 1], told_last[length + 2] = binding - 1, wait
      length = length + 2
    end
    if has_shadows then
      for i = 1, own do
        local k = i <= wide and i or i + shift
        if shadow[k] then
          local fits = math.max(0, math.min(granted, floor((capacity[k] - used[k]) / cost)))
          used[k], told_last[k] = used[k] + fits * cost, told_last[k] + granted - fits
        end
      end
    end
  end
  return used, told_last
end

local used, told_last
if not is_room_for_all then used, told_last = judge() end
