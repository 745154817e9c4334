import Hiredis

@testable import InterlockLoad
@testable import InterlockTesting

/// A real Redis whose wall clock stands still until it is moved, to hold the model against.
struct SteeredRedis {
    private let server: RedisServer
    private let clock: SteeredClock
    private let client: RedisClient

    /// Runs `body` with an empty Redis of its own; it is ended whatever happens.
    static func withServer<Result>(
        atMicroseconds start: Int64, _ body: (SteeredRedis) async throws -> Result
    ) async throws -> Result {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let clock = try await SteeredClock(file: "\(folder.path)/clock")
        return try await RedisServer.withServer(listener: .none, environment: clock.environment) { server in
            let client = RedisClient(configuration: server.configuration)
            let outcome: Swift.Result<Result, any Error>
            do {
                try await client.connect()
                let redis = SteeredRedis(server: server, clock: clock, client: client)
                try redis.show(microseconds: start)
                outcome = .success(try await body(redis))
            } catch {
                outcome = .failure(error)
            }
            await client.close()
            return try outcome.get()
        }
    }

    /// From now on `TIME` is exactly this, in microseconds of the Unix epoch.
    func show(microseconds: Int64) throws {
        try clock.stand(atMicroseconds: microseconds)
    }

    func run<Command: ScriptCommand & Sendable>(_ script: Command) async throws -> Command.Reply
    where Command.Reply: Sendable {
        try await client.run(script)
    }

    /// Runs a script with keys and arguments as they are.
    func run(_ script: RedisScript, keys: [String], arguments: [String] = []) async throws -> RedisReply {
        try await client.run(PlainScript(script: script, keys: keys, arguments: arguments))
    }

    func send(_ words: String...) async throws -> RedisReply {
        try await client.send(AnyCommand(words))
    }

    /// Hears what is published while `body` runs.
    func listening<Result>(
        to channels: [String], _ body: (MessageRecorder) async throws -> Result
    ) async throws -> Result {
        let recorder = MessageRecorder(server.configuration, channels: channels, client: client)
        let outcome: Swift.Result<Result, any Error>
        do {
            try await recorder.start()
            outcome = .success(try await body(recorder))
        } catch {
            outcome = .failure(error)
        }
        await recorder.close()
        return try outcome.get()
    }

    /// Every key, its value and what is left of its time.
    /// - Parameter lapsed: keys that should have lapsed; then they are gone for good afterwards, also when the clock is set back.
    func contents(without lapsed: [String] = []) async throws -> [String: ModelRedis.Content] {
        let keys = try await run(Self.dump, keys: lapsed).array ?? []
        var contents: [String: ModelRedis.Content] = [:]
        for key in keys {
            guard let parts = key.array, parts.count == 4, let name = parts[0].text, let type = parts[1].text,
                let ttl = parts[2].integer, let value = Self.value(ofType: type, parts[3])
            else { throw RedisReply.array(keys).unexpected(for: "the dump") }
            contents[name] = ModelRedis.Content(value: value, ttl: ttl == -1 ? nil : ttl)
        }
        return contents
    }

    /// Where its keys are not the model's, in words: first what is here, then what is there.
    func differences(from model: inout ModelRedis) async throws -> [String] {
        let real = try await contents(without: model.dropLapsed())
        let modelled = model.contents
        return Set(real.keys).union(modelled.keys).filter { real[$0] != modelled[$0] }.sorted().map { key in
            "\(key) is \(real[key].map { "\($0)" } ?? "nothing"), and \(modelled[key].map { "\($0)" } ?? "nothing")"
        }
    }

    private static let dump = RedisScript(
        name: "dump",
        source: Array(
            """
            for _, key in ipairs(KEYS) do redis.call('EXISTS', key) end
            local dumped = {}
            for _, key in ipairs(redis.call('KEYS', '*')) do
              local kind = redis.call('TYPE', key).ok
              local value = kind == 'string' and redis.call('GET', key)
                or kind == 'hash' and redis.call('HGETALL', key)
                or kind == 'zset' and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
                or kind == 'stream' and redis.call('XRANGE', key, '-', '+')
              dumped[#dumped + 1] = {key, kind, redis.call('PTTL', key), value}
            end
            return dumped
            """.utf8))

    private static func value(ofType type: String, _ reply: RedisReply) -> ModelRedis.Value? {
        if type == "string" { return reply.text.map { .string($0) } }
        guard let elements = reply.array else { return nil }
        func pairs() -> [(String, String)] {
            stride(from: 0, to: elements.count - 1, by: 2).map { (elements[$0].text ?? "", elements[$0 + 1].text ?? "") }
        }
        switch type {
        case "hash":
            return .hash(Dictionary(uniqueKeysWithValues: pairs()))
        case "zset":
            return .sortedSet(Dictionary(uniqueKeysWithValues: pairs().map { ($0, Double($1) ?? .nan) }))
        case "stream":
            return .stream(elements.map { $0.array?.last?.array?.map { $0.text ?? "" } ?? [] })
        default:
            return nil
        }
    }
}

/// A script with its keys and arguments, whose reply is what it is.
private struct PlainScript: ScriptCommand, Sendable {
    var script: RedisScript
    var keys: [String]
    var arguments: [String]

    var keyCount: Int { keys.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for word in keys + arguments { encoder.append(word) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}
