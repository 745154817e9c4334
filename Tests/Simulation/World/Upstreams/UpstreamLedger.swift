import NIOCore

/// The requests that have reached one upstream, and the rules for sending one again (docs/reference/proxy.md,
/// "Retries").
struct UpstreamLedger {
    /// A request that has begun to arrive.
    final class Arrival {
        let head: UpstreamRequestHead
        let wire: Wire
        /// Whether its connection had carried an earlier request.
        let isReused: Bool
        let at: Nanoseconds
        /// Whether the request was received in full or its response has begun.
        var isExecuted = false
        /// Whether the server reported that it did not process the request: `REFUSED_STREAM` or `GOAWAY`.
        var isUnprocessed = false
        /// Whether the server has sent anything in response.
        var hasSent = false
        /// The status of the response, once it has begun.
        var status: Int?
        var hasRetryAfter = false
        /// The time at which the server itself closed the connection; `nil` if it did not.
        var endedAt: Nanoseconds?

        init(_ head: UpstreamRequestHead, wire: Wire, isReused: Bool, at: Nanoseconds) {
            self.head = head
            self.wire = wire
            self.isReused = isReused
            self.at = at
        }
    }

    /// The maximum time from a request to the close of its connection for which a resend is allowed. Includes a margin
    /// for clock drift.
    private static let maximumCrossingTime: Nanoseconds = .milliseconds(1020)
    private static let retriedStatuses = [502, 503, 504]

    /// The service's `retries.attempts`.
    var retries: Int
    private let speaksHTTP2: Bool
    private(set) var requestCount = 0
    var responseCount = 0
    /// The requests by call number. The dictionary is never iterated, so its order does not matter.
    private var calls: [Int: [Arrival]] = [:]

    init(retries: Int, speaksHTTP2: Bool) {
        self.retries = retries
        self.speaksHTTP2 = speaksHTTP2
    }

    func arrivalCount(ofCall number: Int) -> Int { calls[number]?.count ?? 0 }

    /// Records a new request. Returns a description of the violation if the request should not have been sent.
    mutating func begin(_ arrival: Arrival, now: Nanoseconds) -> String? {
        requestCount += 1
        let number = arrival.head.number
        let earlier = calls[number] ?? []
        calls[number] = earlier + [arrival]
        guard let last = earlier.last, let reason = resendViolation(arrival, after: earlier, last) else { return nil }
        let ages = earlier.map { "\((now - $0.at) / 1_000_000)" }.joined(separator: ", ")
        return "\(arrival.head.method) of call \(number) was sent again (\(ages) ms after the earlier attempts) \(reason)"
    }

    /// Returns the reason why the call must not be sent again; `nil` if it may be.
    ///
    /// - Parameter last: the latest of `earlier`.
    private func resendViolation(_ arrival: Arrival, after earlier: [Arrival], _ last: Arrival) -> String? {
        let head = arrival.head
        if head.method != last.head.method || head.size != last.head.size { return "with another method or size" }
        if last.isUnprocessed { return countViolation(of: earlier) }
        guard head.isIdempotent else { return last.isExecuted ? "although it is not idempotent and was executed" : nil }
        // A sidecar may end HTTP/2 connections with responses in flight.
        guard !speaksHTTP2 else { return countViolation(of: earlier) }
        // A response on a connection that was cut may not have arrived.
        if !last.wire.isCut, let status = last.status, !Self.retriedStatuses.contains(status) || last.hasRetryAfter {
            return "although it was answered with \(status)"
        }
        return (head.hasBody ? bodyViolation(last) : nil) ?? countViolation(of: earlier)
    }

    /// Checks a request with a body. The sidecar may send it again only if its connection ended like an idle one.
    private func bodyViolation(_ last: Arrival) -> String? {
        guard !last.wire.isCut else { return nil }
        if last.hasSent { return "although it has a body and its answer had begun" }
        if !last.isReused { return "although it has a body and was the first on its connection" }
        guard let end = last.endedAt else { return "although it has a body and its connection was open" }
        return end - last.at > Self.maximumCrossingTime ? "although it has a body and its connection ended late" : nil
    }

    /// Checks the number of attempts. A call may use the configured retries, plus one resend if the server reported a
    /// request as unprocessed, or a connection was reused or cut. HTTP/2 always allows the resend.
    private func countViolation(of earlier: [Arrival]) -> String? {
        let head = earlier[0].head
        let mayResend = speaksHTTP2 || earlier.contains { $0.isUnprocessed || $0.isReused || $0.wire.isCut }
        let maximum = (mayResend ? 2 : 1) + (head.isIdempotent && !head.hasBody ? retries : 0)
        return earlier.count < maximum ? nil : "too often: \(earlier.count + 1) times in total"
    }
}
