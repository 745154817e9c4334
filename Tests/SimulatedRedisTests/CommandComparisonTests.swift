import InterlockCore
import Testing

/// Compares random commands on a few keys. Many arguments are deliberately wrong.
@Suite(.serialized, .requiresRedis7) struct CommandComparisonTests {
    @Test("Random commands get the same replies as from Redis", arguments: 0..<8 as Range<UInt64>)
    func randomCommands(seed: UInt64) throws {
        let comparison = try RedisComparison()
        var source = RandomCommands(seed: seed)
        let connection = try comparison.connect()
        for _ in 0..<2500 {
            if source.chance(10) { try comparison.advance(milliseconds: source.pick([1, 2, 5, 9, 40, 1000])) }
            if source.chance(1) { try comparison.advance(milliseconds: -500) }
            let command = source.next()
            let isUnordered = ["KEYS", "SCAN", "HGETALL"].contains(command[0].uppercased())
            try comparison.send(command.map { Array($0.utf8) }, on: connection, isUnordered: isUnordered)
        }
        print("random commands, seed \(seed): \(comparison.agreementCount) equal replies")
    }
}

struct RandomCommands {
    private var generator: SeededRandom

    init(seed: UInt64) { generator = SeededRandom(seed: seed) }

    mutating func pick<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: elements.indices, using: &generator)]
    }

    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &generator) }

    private mutating func key() -> String { pick(["s", "n", "h", "z", "x", "a", "b"]) }
    private mutating func key(_ usual: String) -> String { chance(90) ? usual : key() }
    private mutating func member() -> String { pick(["m", "n", "o", "p", "1", "", "ab", "a"]) }

    private mutating func score() -> String {
        pick([
            "1", "2", "-3", "0.1", "1e3", "inf", "-inf", "1700000000000000", "3.0", "1.5e300", "-0", "x", "", "nan",
            "123456789012345678",
            " 1", "0x10", "5e-324", "17",
        ])
    }

    private mutating func bound() -> String { pick(["-inf", "+inf", "(1", "2", "(2", "0.1", "1000", "(-3", "y"]) }

    private mutating func integer() -> String {
        pick(["1", "-1", "5", "0", "9223372036854775807", "-9223372036854775808", "01", "+1", "1.0", "", "x", "100", "-0"])
    }

    private mutating func lifetime() -> String {
        pick(["1", "3", "10", "50", "1000", "0", "-1", "9223372036854775807", "x", "2000000"])
    }

    private mutating func value() -> String {
        pick(["v", "10", "-5", "", "9223372036854775807", "3.5", "text with\r\nlines", "0012"])
    }

    /// Returns the words of a random command.
    mutating func next() -> [String] {
        var words = command()
        if chance(2) { words.append("extra") }
        if chance(2), words.count > 1 { words.removeLast() }
        if chance(5) { words[0] = words[0].lowercased() }
        return words
    }

    private mutating func command() -> [String] {
        switch number(0...43) {
        case 0: return ["GET", key("s")]
        case 1, 2: return set()
        case 3: return ["DEL", key(), key()]
        case 4: return ["EXISTS", key(), key(), key()]
        case 5: return ["TYPE", key()]
        case 6: return [pick(["PTTL", "TTL"]), key()]
        case 7: return ["PEXPIRE", key(), lifetime()] + options(["NX", "XX", "GT", "LT", "QQ"], 15)
        case 8: return ["EXPIRE", key(), lifetime()] + options(["NX", "XX", "GT", "LT"], 10)
        case 9: return ["PEXPIREAT", key(), pick(["1700000000500", "1700000003000", "5", "-7", "1800000000000"])]
        case 10: return ["PERSIST", key()]
        case 11: return ["MGET", key(), key("s"), key("n")]
        case 12: return ["INCRBY", key("n"), integer()]
        case 13: return ["DECRBY", key("n"), integer()]
        case 14: return [pick(["INCR", "DECR"]), key("n")]
        case 15, 16: return ["HSET", key("h"), member(), value()] + (chance(40) ? [member(), value()] : [])
        case 17: return ["HGET", key("h"), member()]
        case 18: return ["HMGET", key("h"), member(), member()]
        case 19: return ["HDEL", key("h"), member(), member()]
        case 20: return ["HGETALL", key("h")]
        case 21: return ["HINCRBY", key("h"), member(), integer()]
        case 22: return ["HLEN", key("h")]
        case 23, 24: return ["ZADD", key("z"), score(), member()] + (chance(40) ? [score(), member()] : [])
        case 25: return ["ZADD", key("z"), pick(["NX", "XX", "CH"]), pick(["CH", "XX", "3"]), score(), member()]
        case 26: return ["ZSCORE", key("z"), member()]
        case 27:
            return ["ZRANGE", key("z"), pick(["0", "-1", "1", "-100", "5"]), pick(["-1", "0", "2", "-2", "x"])]
                + options(["WITHSCORES", "REV", "BAD"], 30)
        case 28:
            return ["ZRANGEBYSCORE", key("z"), bound(), bound()] + (chance(40) ? ["WITHSCORES"] : [])
                + (chance(20) ? ["LIMIT", pick(["0", "1", "-1"]), pick(["1", "2", "-1"])] : [])
        case 29: return ["ZRANK", key("z"), member()]
        case 30: return ["ZREM", key("z"), member(), member()]
        case 31: return ["ZREMRANGEBYSCORE", key("z"), bound(), bound()]
        case 32: return ["ZCARD", key("z")]
        case 33: return ["ZPOPMIN", key("z")] + (chance(20) ? [pick(["2", "0", "-1", "x"])] : [])
        case 34, 35:
            return ["XADD", key("x")] + (chance(60) ? ["MAXLEN", pick(["~", "="]), pick(["3", "10", "150", "-1", "q"])] : [])
                + [pick(["*", "*", "*", "5-1", "1700000000900-3", "0-0", "bad", "1700000000001"]), "f", value()]
        case 36: return ["XLEN", key("x")]
        case 37:
            return [
                pick(["XRANGE", "XREVRANGE"]), key("x"), pick(["-", "1700000000100", "5-1"]), pick(["+", "1700000000900-0"]),
            ]
                + (chance(20) ? ["COUNT", "2"] : [])
        case 38: return ["KEYS", pick(["*", "?", "[a-h]", "[^s]", "s*", "\\s", "*x"])]
        case 39: return ["SCAN", "0", "COUNT", "100"] + (chance(30) ? ["TYPE", pick(["string", "zset", "hash"])] : [])
        case 40: return pick([["PING"], ["PING", "x"], ["ECHO", "y"], ["TIME"], ["DBSIZE"], ["WAIT", "0", "10"], ["ROLE"]])
        case 41:
            return pick([
                ["NOSUCH", "a", "b"], ["CLIENT", "NOPE"], ["CLIENT"], ["SCRIPT", "x"], ["SELECT", "1"], ["SELECT", "0"],
                ["SELECT", "x"], ["QQ"], ["CLIENT", "SETNAME", "a b"], ["CLIENT", "SETNAME", "me"], ["CLIENT", "GETNAME"],
            ])
        case 42: return chance(10) ? [pick(["FLUSHALL", "FLUSHDB"])] : ["ZCOUNT", key("z"), bound(), bound()]
        default: return script()
        }
    }

    private mutating func options(_ words: [String], _ percent: Int) -> [String] {
        chance(percent) ? [pick(words)] + (chance(30) ? [pick(words)] : []) : []
    }

    private mutating func set() -> [String] {
        ["SET", key(pick(["s", "n"])), value()] + options(["NX", "XX", "GET", "KEEPTTL", "BAD"], 30)
            + (chance(40) ? [pick(["PX", "EX", "PXAT", "px"]), lifetime()] : [])
    }

    /// Returns an `EVAL` of a script that uses its arguments or is invalid.
    private mutating func script() -> [String] {
        let body = pick(Self.bodies)
        return ["EVAL", body, pick(["2", "2", "2", "1", "0", "-1", "9", "x"]), key(), key(), value(), member()]
    }

    static let bodies = [
        "return redis.call('GET', KEYS[1])", "return redis.pcall('GET', KEYS[1])", "return {1, 2, nil, 3}",
        "return {KEYS[1], ARGV[1], true, false, 3.99, -3.99, {ok='fine'}, {1, {2}}}", "return 1e30", "return redis.call('NOPE')",
        "return redis.call('GET')", "return redis.call('SUBSCRIBE', 'x')", "x = 5", "return x", "error('boom')",
        "error({err='MINE it is'})", "return redis.error_reply('ERR mine')", "return redis.error_reply('single')",
        "return redis.error_reply('-CODE with minus')", "return redis.status_reply('GOOD')", "return {err='plain'}",
        "return {ok='line\\r\\nbreak'}", "local t = nil; return t.x", "return redis.sha1hex('abc')", "return tostring(nil)",
        "return {redis.call('SET', KEYS[1], ARGV[1]), redis.call('TYPE', KEYS[1])}", "return redis.call()",
        "return redis.call({})",
        "return redis.call('HGETALL', KEYS[1])", "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
        "return {pcall(function() return redis.call('INCR', KEYS[1]) end)}",
        "return {pcall(error, {err='E in table'})}", "return {pcall(error, 'E text')}", "return pcall(error, {1, 2})",
        "return {math.floor(3.7), math.random(10) > 0, string.format('%.0f', 17e14)}",
        "redis.call('SET', KEYS[2], 17e14) return redis.call('GET', KEYS[2])",
        "redis.call('SET', KEYS[2], 0.1) return redis.call('GET', KEYS[2])",
        "return cjson.encode({1, 2, 'three', {a = 1}, 0.1, 1e20, true})",
        "return cjson.decode('{\"a\": [1, 2.5, null, \"x\"]}').a",
        "return cjson.decode('nope')",
        "return cmsgpack.pack({1, -1, 200, -200, 70000, 2^40, -2^40, 0.5, 0.1, 'text', true, {a = 1}, {}})",
        "return cmsgpack.unpack(cmsgpack.pack({1, -33, 200, -200, 70000, -70000, 2^40, 'text', {1, {2}}}))",
        "return cmsgpack.unpack('\\146\\1')", "return cmsgpack.unpack('\\193')",
        "return {cmsgpack.unpack(cmsgpack.pack(1, 'a', false))}",
        "return redis.pcall('NOPE').err", "return redis.log(redis.LOG_DEBUG, 'x')", "return redis.log('x')",
        "local function f() error('deep') end f()",
        "return redis.call('SET', KEYS[1], 'a', 'PX', 0)", "if true then", "return #KEYS + #ARGV",
        "return loadstring('return 5')()",
        "return select('#', unpack({1, 2, 3}))", "return type(print) ", "return _VERSION",
        "return {table.concat({'a', 'b'}, ',')}",
        "return redis.call('time')", "return {math.random(), math.random(5), math.random(5, 6)}",
        "math.randomseed(7) return math.random(1000000)",
        "return math.random(0)", "return string.rep('ab', 3)",
        "redis.call('DEL', KEYS[1]) return redis.call('EXISTS', KEYS[1], KEYS[2])",
        "return {redis.call('PTTL', KEYS[1]), redis.call('MGET', KEYS[1], KEYS[2])}", "_G.y = 1", "return rawget(_G, 'nothing')",
        "return redis.status_reply(1)", "return redis.error_reply()", "return function() end", "return {1, {err='inner'}, 2}",
        "return tonumber('0x10') + tonumber('1e2')", "return {double=3.25}",
        "local a = {} setmetatable(a, {__index = function() error('meta') end}) return a.b",
        "return coroutine.wrap(function() return redis.call('EXISTS', KEYS[1]) end)()", "error()", "error(nil)", "return nil",
    ]
}
