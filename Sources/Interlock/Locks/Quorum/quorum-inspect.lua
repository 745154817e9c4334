-- What this server knows of a lock, in one look.
--
-- KEYS  1 lock  2 fence
-- Reply {token or nil, ttl in ms (-1 without end, -2 not held), number of the last grant or nil}
--
-- The token is for the sidecar alone, which shows only its label.

return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2])}
