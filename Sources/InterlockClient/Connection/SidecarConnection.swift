package import Logging
package import NIOCore
package import RedisClient

/// A connection to a sidecar's RESP API, for callers on its event loop. It pipelines calls, writes all calls of one
/// tick at once, and passes each reply to the call's closure, in order. It reconnects until `close`.
///
/// Confined to its event loop: every member must be called on it. Other callers use `SidecarClient`.
package final class SidecarConnection {
    private let configuration: SidecarClientConfiguration
    private let pipeline: RedisPipeline
    private let responseTimeout: TimeAmount

    /// Called when a connection is up and logged in, both the first time and after each reconnect.
    package var onUp: (() -> Void)?
    /// Called when the connection is lost or an attempt fails. Unless the connection was closed, the next attempt is
    /// already scheduled.
    package var onDown: ((InterlockError) -> Void)?

    package init(_ configuration: SidecarClientConfiguration, eventLoop: any EventLoop, logger: Logger) {
        self.configuration = configuration
        responseTimeout = TimeAmount(configuration.responseTimeout)
        pipeline = RedisPipeline(configuration: configuration.redisConfiguration, eventLoop: eventLoop, logger: logger)
        pipeline.onUp = { [weak self] _ in self?.onUp?() }
        pipeline.onDown = { [weak self] error in
            guard let self else { return }
            onDown?(InterlockError(error, configuration))
        }
    }

    package var isUp: Bool { pipeline.isUp }

    /// The last error while there is no connection.
    package var lastFailure: InterlockError? {
        pipeline.lastFailure.map { InterlockError($0, configuration) }
    }

    /// Starts connecting. Has no effect after the first call.
    package func start() {
        pipeline.start()
    }

    /// Closes the connection permanently. Calls in flight fail with `responseLost`.
    @discardableResult
    package func close() -> EventLoopFuture<Void> {
        pipeline.close()
    }

    /// Sends a call. Calls `completion` with the reply exactly once, on the event loop, possibly before this method
    /// returns.
    /// - Parameter timeout: the time limit for the answer; `nil` for the call's wait plus the configured
    ///   `responseTimeout`.
    package func send<Call: SidecarCall>(
        _ call: Call, timeout: TimeAmount? = nil,
        completion: @escaping (Result<Call.Reply, InterlockError>) -> Void
    ) {
        let configuration = configuration
        pipeline.send(call, timeout: timeout ?? TimeAmount(call.wait) + responseTimeout) { result in
            switch result {
            case .success(let reply): completion(.success(reply))
            case .failure(let error): completion(.failure(InterlockError(error, configuration)))
            }
        }
    }
}
