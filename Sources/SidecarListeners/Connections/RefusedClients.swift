internal import CoreMetrics
internal import Logging
internal import NIOCore
internal import SidecarSettings
internal import SidecarTelemetry

/// Counts the clients that one listener refuses for one reason, and logs them at most once a minute.
final class RefusedClients: Sendable {
    /// A reason for refusing clients; the raw value is the metric's name.
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

    /// Counts a refused client, and logs it if a line is due.
    /// - Parameter error: the cause in words; `nil` if the reason is enough.
    func refused(from address: SocketAddress?, error: @autoclosure () -> String? = nil) {
        counter.increment()
        guard let times = logLimiter.recordOccurrence() else { return }
        var fields = ["door": listener.rawValue, "from": address?.ipAddress ?? "this host", "times": "\(times)"]
        fields["error"] = error()
        switch reason {
        case .unknownKey: logger.log(.keyUnknown, fields)
        case .failedHandshake: logger.log(.handshakeFailed, fields)
        }
    }
}
