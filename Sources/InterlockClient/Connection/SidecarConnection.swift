package import Logging
package import NIOCore
package import RedisClient

/// One connection to a sidecar's RESP door, for callers on its event loop: calls are pipelined, those of one tick leave in one
/// write, and replies come in order by callbacks. It is kept up until `close`.
///
/// Confined to its event loop: every member is called on it. `SidecarClient` is the same for everyone else.
package final class SidecarConnection {
    private let configuration: SidecarClientConfiguration
    private let pipeline: RedisPipeline
    private let answerTimeout: TimeAmount

    /// A connection is up and logged in: the first, and each one after a loss.
    package var onUp: (() -> Void)?
    /// The connection is lost, or an attempt failed; the next attempt is planned unless it was closed.
    package var onDown: ((InterlockError) -> Void)?

    package init(_ configuration: SidecarClientConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.configuration = configuration
        answerTimeout = TimeAmount(configuration.answerTimeout)
        pipeline = RedisPipeline(configuration: configuration.redisConfiguration, eventLoop: eventLoop, logger: logger)
        pipeline.onUp = { [weak self] _ in self?.onUp?() }
        pipeline.onDown = { [weak self] error in
            guard let self else { return }
            onDown?(InterlockError(error, configuration))
        }
    }

    package var isUp: Bool { pipeline.isUp }

    /// Why there is no connection, while there is none.
    package var lastFailure: InterlockError? {
        pipeline.lastFailure.map { InterlockError($0, configuration) }
    }

    /// Begins to connect; does nothing when it already has.
    package func start() {
        pipeline.start()
    }

    /// Ends the connection for good; what is in flight fails with `answerLost`.
    @discardableResult
    package func close() -> EventLoopFuture<Void> {
        pipeline.close()
    }

    /// Sends a call; `completion` is called exactly once, on the event loop, possibly before this returns.
    /// - Parameter timeout: how long the answer may take; `nil`: the call's wait and the configuration's `answerTimeout`.
    package func send<Call: SidecarCall>(
        _ call: Call, timeout: TimeAmount? = nil,
        completion: @escaping (Result<Call.Reply, InterlockError>) -> Void
    ) {
        let configuration = configuration
        pipeline.send(call, timeout: timeout ?? TimeAmount(call.wait) + answerTimeout) { result in
            switch result {
            case .success(let reply): completion(.success(reply))
            case .failure(let error): completion(.failure(InterlockError(error, configuration)))
            }
        }
    }
}
