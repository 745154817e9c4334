internal import Interlock
internal import Logging
internal import NIOCore
internal import SidecarTelemetry

/// Logs at most once a minute that the file descriptors are exhausted, for all listeners together.
final class DescriptorShortage: Sendable {
    /// Descriptors belong to the process, so all listeners share one log limit.
    private static let logLimiter = LogRateLimiter()

    private let listener: String
    private let logger: Logger

    init(listener: String, logger: Logger) {
        self.listener = listener
        self.logger = logger
    }

    func record() {
        guard let times = Self.logLimiter.recordOccurrence() else { return }
        logger.log(
            .noDescriptors, ["door": listener, "bound": OpenFileLimit.current.map { "\($0)" } ?? "unknown", "times": "\(times)"])
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
