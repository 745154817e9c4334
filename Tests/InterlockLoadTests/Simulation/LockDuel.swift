import Hiredis
import InterlockCore
import InterlockLoad

@testable import Interlock
@testable import InterlockLoad

/// Sends the same calls to the model's locks and to the real scripts, at the same times, until they differ.
struct LockDuel {
    private static let start: Int64 = 1_760_000_000_000_000
    /// What the recorder listens to.
    static var channels: [String] { LockCallSource.listening.map { KeySpace().wake($0) } + [LockCall.events] }

    private let redis: SteeredRedis
    private let recorder: MessageRecorder
    private let seed: UInt64
    private var source: LockCallSource
    private var model: ModelRedis

    init(seed: UInt64, redis: SteeredRedis, recorder: MessageRecorder, mutant: Mutant? = nil) {
        self.seed = seed
        self.redis = redis
        self.recorder = recorder
        source = LockCallSource(seed: seed)
        model = ModelRedis(microseconds: Self.start, mutant: mutant)
        for channel in Self.channels { model.subscribers[channel] = 1 }
    }

    /// What the first difference is, with all that is needed to have it again; `nil`: there is none.
    mutating func fight(rounds: Int) async throws -> String? {
        _ = try await redis.send("FLUSHALL")
        for round in 0..<rounds {
            model.microseconds += source.step()
            try redis.show(microseconds: model.microseconds)
            let lock = source.lock()
            let call = source.call(of: lock, in: model)
            let real = try await call.reply(of: redis, lock)
            let modelled = call.reply(of: &model, lock)
            var all = real == modelled ? [] : ["\(real), and \(modelled)"]
            all += try await redis.differences(from: &model)
            // The model notes what nobody hears as well.
            let told = model.takePublished().filter { model.subscribers[$0.channel] != nil }
            let heard = try await recorder.take().map(Self.inWordsOfTheModel)
            if heard != told { all.append("published: \(heard), and \(told)") }
            guard all.isEmpty else {
                return "seed \(seed), round \(round), at \(model.microseconds) µs, script and model of \(call): "
                    + all.joined(separator: "; ")
            }
        }
        return nil
    }

    /// What is told to a sidecar the model does not put into JSON.
    private static func inWordsOfTheModel(_ message: ModelRedis.Message) -> ModelRedis.Message {
        guard let wake = WakeMessage(Array(message.text.utf8)), let what = WakeHint.What(rawValue: wake.what.rawValue) else {
            return message
        }
        return ModelRedis.Message(
            channel: message.channel, text: WakeHint(what, ticket: wake.ticket, lock: wake.lock).text)
    }
}
