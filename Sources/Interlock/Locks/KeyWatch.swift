internal import Logging
internal import NIOCore
internal import RedisClient

/// A connection whose reads Redis tracks: Redis reports when any other client, Interlock's or not, changes a key that
/// was read here. Confined to the coordinator's event loop.
///
/// Source: "Client-side caching reference", redis.io: tracking in two-connection mode, as in RESP2.
final class KeyWatch {
    /// The connection whose reads are tracked.
    let pipeline: any RedisSender
    private let logger: Logger
    /// The client ID of the subscriber's connection to each server, which receives the reports.
    private var listeners: [RedisConfiguration.Address: Int64] = [:]

    /// Called when a server starts to report changes. It did not report earlier changes, so read the keys again.
    var onTracking: ((RedisConfiguration.Address) -> Void)?

    init(pipeline: any RedisSender, logger: Logger) {
        self.pipeline = pipeline
        self.logger = logger
        pipeline.onUp = { [unowned self] in track(at: $0) }
    }

    var commandsSent: Int64 { pipeline.sentCommandCount }
    func reaches(_ key: String) -> Bool { pipeline.reaches(key) }

    func start() {
        pipeline.start()
    }

    func close() -> EventLoopFuture<Void> {
        pipeline.close()
    }

    /// Records the client ID of the connection that is subscribed at a server; `nil` if no connection is.
    func setListener(_ listener: Int64?, at server: RedisConfiguration.Address) {
        listeners[server] = listener
        for connection in pipeline.connections where connection.address == server { track(at: connection) }
    }

    /// Reads the remaining time of a key, and starts watching it.
    func remainingTTL(of key: String, completion: @escaping (Result<RemainingTime.Reply, RedisError>) -> Void) {
        pipeline.send(RemainingTime(key: key), completion: completion)
    }

    /// Reads the value of a key, and starts watching it.
    func value(of key: String, completion: @escaping (Result<String?, RedisError>) -> Void) {
        pipeline.send(GetText(key: key), completion: completion)
    }

    /// Asks a server to report changes of the keys that are read from now on.
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
