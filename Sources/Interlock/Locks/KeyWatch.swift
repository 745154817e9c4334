internal import Logging
internal import NIOCore
internal import RedisClient

/// A connection whose reads Redis remembers: it says when a key that was read here is changed by anybody, also by other
/// libraries and by people. Confined to the coordinator's event loop.
///
/// Source: "Client-side caching reference", redis.io: tracking in two-connection mode, as RESP2 has it.
final class KeyWatch {
    /// What is read over it is watched.
    let pipeline: any RedisSender
    private let logger: Logger
    /// The subscriber's connection to each server, which is told.
    private var listeners: [RedisConfiguration.Address: Int64] = [:]

    /// From now on changes at this server are told, and were not before: whoever relies on it reads again.
    var onTracking: ((RedisConfiguration.Address) -> Void)?

    init(pipeline: any RedisSender, logger: Logger) {
        self.pipeline = pipeline
        self.logger = logger
        pipeline.onUp = { [unowned self] in track(at: $0) }
    }

    var commandsSent: Int64 { pipeline.commandsSent }
    func reaches(_ key: String) -> Bool { pipeline.reaches(key) }

    func start() {
        pipeline.start()
    }

    func close() -> EventLoopFuture<Void> {
        pipeline.close()
    }

    /// The subscriptions at a server stand, on the connection with this ID; `nil`: they do not.
    func tell(_ listener: Int64?, at server: RedisConfiguration.Address) {
        listeners[server] = listener
        for connection in pipeline.connections where connection.address == server { track(at: connection) }
    }

    /// How long a key still lasts. It is watched from then on.
    func remaining(of key: String, completion: @escaping (Result<RemainingTime.Reply, RedisError>) -> Void) {
        pipeline.send(RemainingTime(key: key), completion: completion)
    }

    /// What a key holds. It is watched from then on.
    func value(of key: String, completion: @escaping (Result<String?, RedisError>) -> Void) {
        pipeline.send(GetText(key: key), completion: completion)
    }

    private func track(at server: RedisPipeline) {
        guard let listener = listeners[server.address], server.isUp else { return }
        server.send(TrackReads(redirectingTo: listener)) { [self] result in
            switch result {
            case .success:
                onTracking?(server.address)
            case .failure(let error):
                logger.log(.redisUntracked, ["error": "\(error)"])
            }
        }
    }
}
