internal import CoreMetrics
internal import Logging
internal import NIOCore
internal import SidecarSettings
internal import SidecarTelemetry

/// Counts the clients that one listener refuses for one reason, and logs them at most once a minute.
final class RefusedClients: Sendable {
    /// The reason for refusing clients. The raw value is the name of the metric.
    enum Reason: String {
        case unknownKey = "interlock_login_failures_total"
        case failedHandshake = "interlock_tls_handshake_failures_total"
    }

    private let reason: Reason
    private let listener: ListenerName
    private let counter: Counter
    private let logger: Logger
    private let logLimiter = LogRateLimiter()

    init(_ reason: Reason, at listener: ListenerName, logger: Logger) {
        self.reason = reason
        self.listener = listener
        self.logger = logger
        counter = Counter(label: reason.rawValue, dimensions: [("door", listener.rawValue)])
    }

    /// Counts a client, and logs it if a line is due.
    /// - Parameter error: a description of the cause; `nil` if the reason says enough.
    func record(from address: SocketAddress?, error: @autoclosure () -> String? = nil) {
        counter.increment()
        guard let unloggedCount = logLimiter.recordOccurrence() else { return }
        var fields = ["door": listener.rawValue, "from": address?.ipAddress ?? "this host", "times": "\(unloggedCount)"]
        fields["error"] = error()
        switch reason {
        case .unknownKey: logger.log(.keyUnknown, fields)
        case .failedHandshake: logger.log(.handshakeFailed, fields)
        }
    }
}
