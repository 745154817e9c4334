-- Divides the limits of a domain's buckets among the data planes by their demand (max-min fairness), and the remainder
-- evenly. Each call assigns the quotas of one data plane.
--
-- KEYS  each bucket's quotas: a hash, for each data plane "quota expiry previous-quota previous-expiry demand", with
--       times in ms
-- ARGV  1 in MessagePack: how long a quota is kept, in ms; the maximum number of data planes of a bucket; for each
--         bucket: its limit and the data plane's demand
--       2... for each bucket, the name of the data plane there
-- Reply in MessagePack: for each bucket, the data plane's quota
--
-- Guarantees that the quotas of a bucket together never exceed its limit, unless the limit was lowered. A quota that
-- shrinks counts in full while the data plane may still use it, because the new one may not have arrived. A quota
-- shrinks at most once in that time. It changes by more than a tenth or not at all, because a change costs a part of a
-- token.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local numbers = cmsgpack.unpack(ARGV[1])
local retention, max_data_planes = numbers[1], numbers[2]

-- Returns the part of the limit that an entry occupies: the greater of its quota and the quota that it replaces.
local function occupied(entry)
  return math.max(entry.expires > now and entry.quota or 0, entry.previous_expires > now and entry.previous or 0)
end

local function store(key, entry)
  redis.call('HSET', key, entry.id, string.format(
    '%.0f %.0f %.0f %.0f %.0f', entry.quota, entry.expires, entry.previous, entry.previous_expires, entry.needs))
end

-- Returns the calling data plane's entry, all entries of the bucket that still count, and the part of the limit that
-- the others occupy.
local function load_entries(key, id, needs)
  local own = { id = id, quota = 0, expires = 0, previous = 0, previous_expires = 0, needs = needs }
  local entries, taken = { own }, 0
  local stored = redis.call('HGETALL', key)
  for i = 1, #stored, 2 do
    local quota, expires, previous, previous_expires, needed =
      string.match(stored[i + 1], '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
    local entry = {
      id = stored[i], quota = tonumber(quota), expires = tonumber(expires), previous = tonumber(previous),
      previous_expires = tonumber(previous_expires), needs = tonumber(needed),
    }
    -- No entry is kept longer than `retention`, so the clock has been set back.
    if math.max(entry.expires, entry.previous_expires) > now + retention then
      entry.expires = math.min(entry.expires, now + retention)
      entry.previous_expires = math.min(entry.previous_expires, now + retention)
      store(key, entry)
    end
    if entry.id == own.id then
      own.quota, own.expires = entry.quota, entry.expires
      own.previous, own.previous_expires = entry.previous, entry.previous_expires
    elseif occupied(entry) == 0 and entry.expires <= now then
      redis.call('HDEL', key, entry.id)
    else
      taken = taken + occupied(entry)
      entries[#entries + 1] = entry
    end
  end
  return own, entries, taken
end

-- Returns the fair quota of the calling data plane. The smallest demands are met first, each with at most an even part
-- of the remainder; the unused rest is then divided evenly.
local function fair_quota(own, entries, limit)
  table.sort(entries, function(a, b)
    if a.needs ~= b.needs then return a.needs < b.needs end
    return a.id < b.id
  end)
  local remaining, target = limit, {}
  for i = 1, #entries do
    target[i] = math.min(entries[i].needs, math.floor(remaining / (#entries - i + 1)))
    remaining = remaining - target[i]
  end
  for i = 1, #entries do
    local extra = math.floor(remaining / (#entries - i + 1))
    remaining = remaining - extra
    if entries[i] == own then return target[i] + extra end
  end
end

local function assign(key, id, limit, needs)
  local own, entries, taken = load_entries(key, id, needs)
  if #entries > max_data_planes and own.expires <= now then return 0 end
  local free = math.max(0, limit - taken)
  local target = fair_quota(own, entries, limit)
  local quota = math.min(target, free)
  local current = own.expires > now and own.quota or 0
  -- The limit was lowered, and the quotas of the others last until they expire. The caller keeps up to its fair quota.
  if taken + current > limit then quota = math.max(quota, math.min(current, target)) end
  if current > 0 and current <= free and math.abs(quota - current) * 10 <= current then quota = current end
  if quota < current then
    if own.previous_expires > now and current <= free then
      quota = current
    else
      if own.previous_expires <= now or own.previous < current then own.previous = current end
      own.previous_expires = math.max(own.previous_expires, own.expires)
    end
  elseif own.previous_expires <= now then
    own.previous, own.previous_expires = 0, 0
  end
  own.quota, own.expires = quota, now + retention
  store(key, own)
  redis.call('PEXPIRE', key, retention)
  return quota
end

local quotas = {}
for k = 1, #KEYS do
  local data_plane, limit, needs = ARGV[k + 1], numbers[2 * k + 1], numbers[2 * k + 2]
  quotas[k] = assign(KEYS[k], data_plane, limit, needs)
end
return cmsgpack.pack(quotas)
