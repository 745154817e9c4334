internal import AsyncHTTPClient

/// Why a call to an upstream came to nothing.
struct ProxyFailure: Error, Sendable {
    enum Cause: String, Sendable {
        /// No connection could be made, or its certificate is not trusted.
        case connect
        case connectTimeout = "connect_timeout"
        /// The connection was closed before an answer began.
        case closed
        case firstByteTimeout = "first_byte_timeout"
        case totalTimeout = "total_timeout"
        /// The answer broke off or was not HTTP.
        case broken
        /// The client did not finish its request, or has left.
        case client
    }

    var cause: Cause
    /// For the log.
    var reason: String

    static let firstByte = ProxyFailure(cause: .firstByteTimeout, reason: "no answer began within timeouts.first_byte")
    static let total = ProxyFailure(cause: .totalTimeout, reason: "the call took longer than timeouts.total")
    static let clientIsSlow = ProxyFailure(
        cause: .client, reason: "the client did not send its request, or read the answer, within timeouts.total")
    static let clientLeft = ProxyFailure(cause: .client, reason: "the client has left")

    var isTimeout: Bool { [.connectTimeout, .firstByteTimeout, .totalTimeout].contains(cause) }

    /// Whether the upstream certainly has not answered, and another try may fare better.
    var mayBeRetried: Bool { [.connect, .connectTimeout, .closed].contains(cause) }

    /// How far the call had come when it failed.
    enum Stage: Sendable {
        case connecting, sent, answering
    }

    init(cause: Cause, reason: String) {
        self.cause = cause
        self.reason = reason
    }

    init(_ error: any Error, at stage: Stage) {
        if let failure = error as? ProxyFailure {
            self = failure
            return
        }
        let cause: Cause =
            switch (stage, error as? HTTPClientError) {
            case (_, .deadlineExceeded): .totalTimeout
            case (.connecting, .connectTimeout), (.connecting, .tlsHandshakeTimeout),
                (.connecting, .getConnectionFromPoolTimeout):
                .connectTimeout
            case (.connecting, _): .connect
            case (.sent, .bodyLengthMismatch): .client
            case (.sent, _): .closed
            case (.answering, _): .broken
            }
        self.init(cause: cause, reason: "\(error)")
    }
}
