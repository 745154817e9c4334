-- Divides the limits of a domain's buckets among the data planes by their demand (max-min fairness), and the rest
-- evenly. A call assigns the shares of one data plane.
--
-- KEYS  each bucket's shares: a hash, for each data plane "share until former until needs", with times in ms
-- ARGV  1 in MessagePack: how long a share is kept, in ms; the most data planes of a bucket; for each bucket: its
--         limit and the data plane's demand
--       2... for each bucket, the name of the data plane there
-- Reply in MessagePack: for each bucket, the data plane's share
--
-- Guarantees that the shares of a bucket together never exceed its limit, unless the limit was lowered: a share that
-- shrinks counts in full for as long as the data plane may still use it without having received the new one. A share
-- shrinks once in that time, and changes by more than a tenth or not at all, because a change costs a part of a token.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local numbers = cmsgpack.unpack(ARGV[1])
local kept, most = numbers[1], numbers[2]

-- The part of the limit that a share occupies: the share, or the greater one that it replaces.
local function held(part)
  return math.max(part.till > now and part.share or 0, part.former_till > now and part.former or 0)
end

local function store(key, part)
  redis.call('HSET', key, part.id, string.format(
    '%.0f %.0f %.0f %.0f %.0f', part.share, part.till, part.former, part.former_till, part.needs))
end

-- Returns the calling data plane's part, all parts of the bucket that still count, and the total that the others hold.
local function parts_of(key, id, needs)
  local own = { id = id, share = 0, till = 0, former = 0, former_till = 0, needs = needs }
  local parts, taken = { own }, 0
  local stored = redis.call('HGETALL', key)
  for i = 1, #stored, 2 do
    local share, till, former, former_till, needed = string.match(stored[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    local part = {
      id = stored[i], share = tonumber(share), till = tonumber(till), former = tonumber(former),
      former_till = tonumber(former_till), needs = tonumber(needed),
    }
    -- No part is kept longer than `kept`, so the clock was set back since.
    if math.max(part.till, part.former_till) > now + kept then
      part.till, part.former_till = math.min(part.till, now + kept), math.min(part.former_till, now + kept)
      store(key, part)
    end
    if part.id == own.id then
      own.share, own.till, own.former, own.former_till = part.share, part.till, part.former, part.former_till
    elseif held(part) == 0 and part.till <= now then
      redis.call('HDEL', key, part.id)
    else
      taken = taken + held(part)
      parts[#parts + 1] = part
    end
  end
  return own, parts, taken
end

-- Returns the fair share of the calling data plane. The smallest demands are met first, each with at most an even part
-- of the remainder; the unused rest is then divided evenly.
local function fair(own, parts, limit)
  table.sort(parts, function(a, b)
    if a.needs ~= b.needs then return a.needs < b.needs end
    return a.id < b.id
  end)
  local left, target = limit, {}
  for i = 1, #parts do
    target[i] = math.min(parts[i].needs, math.floor(left / (#parts - i + 1)))
    left = left - target[i]
  end
  for i = 1, #parts do
    local more = math.floor(left / (#parts - i + 1))
    left = left - more
    if parts[i] == own then return target[i] + more end
  end
end

local function assign(key, id, limit, needs)
  local own, parts, taken = parts_of(key, id, needs)
  if #parts > most and own.till <= now then return 0 end
  local free = math.max(0, limit - taken)
  local target = fair(own, parts, limit)
  local share = math.min(target, free)
  local has = own.till > now and own.share or 0
  -- The limit was lowered. The others' shares last until they expire, and no data plane gets less than its fair share.
  if taken + has > limit then share = math.max(share, math.min(has, target)) end
  if has > 0 and has <= free and math.abs(share - has) * 10 <= has then share = has end
  if share < has then
    if own.former_till > now and has <= free then
      share = has
    else
      if own.former_till <= now or own.former < has then own.former = has end
      own.former_till = math.max(own.former_till, own.till)
    end
  elseif own.former_till <= now then
    own.former, own.former_till = 0, 0
  end
  own.share, own.till = share, now + kept
  store(key, own)
  redis.call('PEXPIRE', key, kept)
  return share
end

local shares = {}
for k = 1, #KEYS do
  local data_plane, limit, needs = ARGV[k + 1], numbers[2 * k + 1], numbers[2 * k + 2]
  shares[k] = assign(KEYS[k], data_plane, limit, needs)
end
return cmsgpack.pack(shares)
