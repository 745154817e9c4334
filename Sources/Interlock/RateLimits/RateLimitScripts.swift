internal import Hiredis
internal import InterlockCore

/// See `take.lua`.
struct TakeScript: ScriptCommand {
    static let source = RedisScript(name: "take.lua", source: PackageResources.take_lua)

    var keys: KeySpace
    var service: String
    var batch: LimitBatch
    var counters: [LimitBatch.Counter]

    init(keys: KeySpace, service: String, batch: LimitBatch) {
        self.keys = keys
        self.service = service
        self.batch = batch
        counters = batch.counters
    }

    var script: RedisScript { Self.source }
    var keyCount: Int { counters.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for counter in counters {
            encoder.append(
                keys.rate(service: service, limit: batch.definitions[counter.definition].name, subject: counter.subject))
        }
        encoder.append(batch.serviceWideCount)
        encoder.append(batch.perSubjectCount)
        for counter in counters.prefix(batch.serviceWideCount + batch.perSubjectCount) {
            encoder.append(counter.limit)
            encoder.append(counter.windowMilliseconds)
        }
        if counters.count == batch.serviceWideCount {
            // No subject came: the per-subject limits are not among the counters, but the script counts on their places.
            for index in batch.definitions.indices where batch.definitions[index].isPerSubject {
                encoder.append(batch.definitions[index].limit)
                encoder.append(batch.definitions[index].windowMilliseconds)
            }
        }
        for run in batch.runs {
            encoder.append(run.count)
            encoder.append(run.cost)
            encoder.append(run.waits ? 1 : 0)
            encoder.append(run.group)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> LimitVerdict {
        guard let parts = reply.array, parts.count == 1 + 2 * counters.count + 2 * batch.runs.count else {
            throw reply.unexpected(for: "take.lua")
        }
        let numbers = parts.compactMap(\.integer)
        guard numbers.count == parts.count else { throw reply.unexpected(for: "take.lua") }
        let runStart = 1 + 2 * counters.count
        return LimitVerdict(
            timeMilliseconds: numbers[0],
            counters: stride(from: 1, to: runStart, by: 2).map { LimitVerdict.Counter(count: numbers[$0], ttl: numbers[$0 + 1]) },
            runs: stride(from: runStart, to: numbers.count, by: 2).map { index in
                LimitVerdict.Run(
                    granted: Int(numbers[index]), binding: min(max(0, Int(numbers[index + 1])), counters.count - 1))
            })
    }
}

/// Something taken from one counter, so that it can be given back.
struct TakenShare {
    var key: String
    var definition: Int
    var subject: String?
    var cost: Int64
    /// When the window that it was taken from ends, in milliseconds of Redis' time.
    var windowEnd: Int64
    var windowMilliseconds: Int64
}

/// See `give-back.lua`.
struct GiveBackScript: ScriptCommand {
    static let source = RedisScript(name: "give-back.lua", source: PackageResources.give_back_lua)

    var shares: [TakenShare]

    var script: RedisScript { Self.source }
    var keyCount: Int { shares.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for share in shares { encoder.append(share.key) }
        for share in shares {
            encoder.append(share.cost)
            encoder.append(share.windowEnd)
            encoder.append(share.windowMilliseconds)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let number = reply.integer else { throw reply.unexpected(for: "give-back.lua") }
        return number
    }
}

/// See `peek.lua`.
struct PeekScript: ScriptCommand {
    static let source = RedisScript(name: "peek.lua", source: PackageResources.peek_lua)

    var keyNames: [String]

    var script: RedisScript { Self.source }
    var keyCount: Int { keyNames.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for key in keyNames { encoder.append(key) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> [LimitVerdict.Counter] {
        let numbers = reply.array?.compactMap(\.integer) ?? []
        guard numbers.count == 2 * keyNames.count else { throw reply.unexpected(for: "peek.lua") }
        return stride(from: 0, to: numbers.count, by: 2).map { LimitVerdict.Counter(count: numbers[$0], ttl: numbers[$0 + 1]) }
    }
}
