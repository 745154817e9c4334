-- What there is to know of locks, each in one look.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants  6 counts;  then the same of the next
-- ARGV  1 the asking sidecar's ID  2 the most leases of a group, and the most tickets, that are told of
--       3 what a wake channel's name begins with
--       4 for how many ms a sidecar that was asked goes on telling how many wait in it
-- Reply of each {token or nil, ttl in ms (-1 without end, -2 not held), last fence or nil, other sidecars that wait,
--        leases of the group that holds it (-1: no group), its places (0: any number),
--        {token, ms left, fence or "", …} of those that end first,
--        {ticket, waiters or "", …} of those that wait, in the order of their turns; first those whose turn it is}
--
-- The tokens are for the sidecar alone, which shows only their labels. How many wait behind a ticket its sidecar alone knows: whoever
-- has not told it for a while is asked, and the next look may find it; see counts.lua.
--
-- Before all else stands `local KEYS = KEYS`: the functions of the shared texts see the keys of the lock that is looked at.

local queue = open_queue(ARGV[3], ARGV[1])
local most, lifetime = tonumber(ARGV[2]), tonumber(ARGV[4])

-- How many wait behind another sidecar's ticket, as far as it was told. What counts for longer than it can was told before the clock
-- was set back.
local function told(ticket, now)
  local said = redis.call('HGET', KEYS[6], string.match(ticket, '^[^/]*')) or ''
  local lasts, count, of = string.match(said, '^(%d+) (%d+) (.*)$')
  local left = of == ticket and lasts - now or 0
  if left < lifetime / 2 or left > lifetime then queue.tell(ticket, 'count') end
  return left > 0 and left <= lifetime and count or ''
end

local function look()
  local holder, now = redis.call('GET', KEYS[1]), milliseconds()
  local others, waiting = 0, {}
  local function list(ticket)
    local is_own = string.match(ticket, '^[^/]*') == ARGV[1]
    if not is_own then others = others + 1 end
    if #waiting < 2 * most then
      waiting[#waiting + 1] = ticket
      waiting[#waiting + 1] = is_own and '' or told(ticket, now)
    end
  end
  local places = group_places(holder)
  local holders, leases = -1, {}
  if places then
    holders = redis.call('ZCARD', KEYS[4]) - 1
    -- Before them stands the group's name.
    local ends = redis.call('ZRANGE', KEYS[4], 1, most, 'WITHSCORES')
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
  return {holder, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), others, holders, places or 0, leases, waiting}
end

local all, found = KEYS, {}
for first = 1, #all - 5, 6 do
  KEYS = {unpack(all, first, first + 5)}
  local is_found, what = pcall(look)
  -- Where several are asked for, one whose keys somebody else uses for something else is nobody's.
  if not is_found and (#all < 12 or not string.find(type(what) == 'table' and what.err or what, 'WRONGTYPE')) then error(what) end
  found[#found + 1] = is_found and what or {false, -2, false, 0, -1, 0, {}, {}}
end
return found
