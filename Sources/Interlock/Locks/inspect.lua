-- What there is to know of a lock, in one look.
--
-- KEYS  1 lock  2 fence  3 queue  4 holders  5 grants  6 counts
-- ARGV  1 the asking sidecar's ID  2 the most leases of a group, and the most tickets, that are told of
--       3 what a wake channel's name begins with
--       4 for how many ms a sidecar that was asked goes on telling how many wait in it
-- Reply {token or nil, ttl in ms (-1 without end, -2 not held), last fence or nil, other sidecars that wait,
--        leases of the group that holds it (-1: no group), its places (0: any number),
--        {token, ms left, fence or "", …} of those that end first,
--        {ticket, waiters or "", …} of those that wait, in the order of their turns; first those whose turn it is}
--
-- The tokens are for the sidecar alone, which shows only their labels. How many wait behind a ticket its sidecar alone knows: whoever
-- has not told it for a while is asked, and the next look may find it; see counts.lua.

local queue = open_queue(ARGV[3], ARGV[1])
local holder = redis.call('GET', KEYS[1])
local now = milliseconds()
local others, waiting = 0, {}

-- How many wait behind another sidecar's ticket, as far as it was told. What counts for longer than it can was told before the clock
-- was set back.
local function told(ticket)
  local lasts, count = string.match(redis.call('HGET', KEYS[6], ticket) or '', '^(%d+) (%d+)$')
  local left = lasts and lasts - now or 0
  if left < ARGV[4] / 2 or left > tonumber(ARGV[4]) then queue.tell(ticket, 'count') end
  return left > 0 and left <= tonumber(ARGV[4]) and count or ''
end

local function list(ticket)
  local is_own = string.match(ticket, '^[^/]*') == ARGV[1]
  if not is_own then others = others + 1 end
  if #waiting < 2 * ARGV[2] then
    waiting[#waiting + 1] = ticket
    waiting[#waiting + 1] = is_own and '' or told(ticket)
  end
end

local places = group_places(holder)
local holders, leases = -1, {}
if places then
  holders = redis.call('ZCARD', KEYS[4]) - 1
  -- Before them stands the group's name.
  local ends = redis.call('ZRANGE', KEYS[4], 1, ARGV[2], 'WITHSCORES')
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
