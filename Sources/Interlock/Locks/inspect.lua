-- needs: locks, groups
-- Describes locks, each at one moment.
--
-- KEYS  for each lock: 1 lock  2 fence  3 queue  4 holders  5 grants  6 counts
-- ARGV  1 the asking sidecar's ID  2 the maximum number of leases of a group, and of tickets, to list
--       3 the prefix of wake channels  4 the ms for which a sidecar keeps publishing its number of waiters
-- Reply for each lock {token or nil, ttl in ms (-1: no expiry, -2: not held), last fence or nil,
--       other sidecars that wait, leases of the group that holds it (-1: no group), its slots (0: any number),
--       {token, ms left, fence or "", …} of the leases that end first,
--       {ticket, waiters or "", …} of the waiting sidecars in the order of their turns, starting with those whose turn
--       it is}
--
-- Guarantees that nothing changes except that lapsed leases are dropped. The sidecar never reveals the tokens, only
-- their labels. Only a sidecar knows how many callers wait behind its ticket. The script asks a sidecar that has not
-- published the number for a while to do so, and the next inspection may find it; see counts.lua.

local sidecar, most_listed, wake_prefix, count_lifetime = unpack(ARGV)
most_listed, count_lifetime = tonumber(most_listed), tonumber(count_lifetime)
local queue = open_queue(wake_prefix, sidecar)

-- Returns the number of callers that wait behind another sidecar's ticket, or '' if unknown. A count that is valid for
-- longer than its lifetime was written before the clock was set back.
local function waiters(ticket, now)
  local stored = redis.call('HGET', KEYS[6], string.match(ticket, '^[^/]*')) or ''
  local valid_until, count, owner = string.match(stored, '^(%d+) (%d+) (.*)$')
  local valid_for = owner == ticket and valid_until - now or 0
  if valid_for < count_lifetime / 2 or valid_for > count_lifetime then queue.notify(ticket, 'count') end
  return valid_for > 0 and valid_for <= count_lifetime and count or ''
end

local function describe()
  local holder, now = redis.call('GET', KEYS[1]), milliseconds()
  local others, waiting = 0, {}
  local function list(ticket)
    local is_own = string.match(ticket, '^[^/]*') == sidecar
    if not is_own then others = others + 1 end
    if #waiting < 2 * most_listed then
      waiting[#waiting + 1] = ticket
      waiting[#waiting + 1] = is_own and '' or waiters(ticket, now)
    end
  end
  local slots = group_slots(holder)
  local holders, leases = -1, {}
  if slots then
    holders = redis.call('ZCARD', KEYS[4]) - 1
    -- The first member is the group's name.
    local ends = redis.call('ZRANGE', KEYS[4], 1, most_listed, 'WITHSCORES')
    for i = 1, #ends, 2 do
      leases[#leases + 1] = ends[i]
      leases[#leases + 1] = math.max(0, tonumber(ends[i + 1]) - now)
      leases[#leases + 1] = redis.call('HGET', KEYS[5], ends[i]) or ''
      if string.find(ends[i], ticket_mark) then list(ends[i]) end
    end
  elseif holder and string.find(holder, ticket_mark) then
    list(holder)
  end
  for _, ticket in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do list(ticket) end
  return {holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), others, holders, slots or 0, leases, waiting}
end

-- The functions read the first six keys, so each lock's keys are copied there in turn.
local keys, found = {}, {}
for i = 1, #KEYS do keys[i] = KEYS[i] end
for first = 1, #keys - 5, 6 do
  for i = 1, 6 do KEYS[i] = keys[first + i - 1] end
  local is_found, result = pcall(describe)
  -- Among several locks, one whose keys other software uses for another purpose counts as not held.
  local failure = not is_found and (type(result) == 'table' and result.err or result)
  if failure and (#keys < 12 or not string.find(failure, 'WRONGTYPE')) then error(result) end
  found[#found + 1] = is_found and result or {false, -2, false, 0, -1, 0, {}, {}}
end
return found
