internal import Hiredis
internal import Logging
internal import NIOCore

/// A connection whose reads Redis remembers: it says when a key that was read here is changed by anybody, also by other
/// libraries and by people. Confined to the coordinator's event loop.
///
/// Source: "Client-side caching reference", redis.io: tracking in two-connection mode, as RESP2 has it.
final class KeyWatch {
    /// What is read over it is watched.
    let pipeline: RedisPipeline
    private let logger: Logger
    /// The subscriber's connection, which is told.
    private var listener: Int64?

    /// From now on changes are told, and were not before: whoever relies on it reads again.
    var onTracking: (() -> Void)?

    init(pipeline: RedisPipeline, logger: Logger) {
        self.pipeline = pipeline
        self.logger = logger
        pipeline.onUp = { [unowned self] in track() }
    }

    var commandsSent: Int64 { pipeline.commandsSent }
    var isUp: Bool { pipeline.isUp }

    func start() {
        pipeline.start()
    }

    func close() -> EventLoopFuture<Void> {
        pipeline.close()
    }

    /// The subscriptions stand, on the connection with this ID.
    func tell(_ listener: Int64?) {
        self.listener = listener
        track()
    }

    /// How long a key still lasts. It is watched from then on.
    func remaining(of key: String, completion: @escaping (Result<RemainingTime.Reply, RedisError>) -> Void) {
        pipeline.send(RemainingTime(key: key), completion: completion)
    }

    /// What a key holds. It is watched from then on.
    func value(of key: String, completion: @escaping (Result<String?, RedisError>) -> Void) {
        pipeline.send(GetText(key: key), completion: completion)
    }

    private func track() {
        guard let listener, pipeline.isUp else { return }
        pipeline.send(TrackReads(redirectingTo: listener)) { [self] result in
            switch result {
            case .success:
                onTracking?()
            case .failure(let error):
                logger.log(.redisUntracked, ["error": "\(error)"])
            }
        }
    }
}
