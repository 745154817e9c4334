internal import Interlock
internal import Logging
internal import NIOCore
internal import SidecarTelemetry

/// Logs that the file descriptors are exhausted, at most once a minute for all listeners together.
final class DescriptorShortage: Sendable {
    /// Descriptors belong to the process, so all listeners share one log limit.
    private static let logLimiter = LogRateLimiter()

    private let listener: String
    private let logger: Logger

    init(listener: String, logger: Logger) {
        self.listener = listener
        self.logger = logger
    }

    /// Records that no descriptor was free for a connection, and logs it if a line is due.
    func record() {
        guard let unloggedCount = Self.logLimiter.recordOccurrence() else { return }
        let limit = OpenFileLimit.current.map { "\($0)" } ?? "unknown"
        logger.log(.noDescriptors, ["door": listener, "bound": limit, "times": "\(unloggedCount)"])
    }
}

extension Channel {
    /// Whether this connection has one of the last descriptors, which are reserved for health checks, files and
    /// libraries.
    var usesReservedDescriptor: Bool {
        let descriptor = try? pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) { $0 }
        return descriptor.map(OpenFileLimit.isReserved) ?? false
    }
}
