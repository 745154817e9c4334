internal import InterlockCore

extension ProxiedCallStateMachine {
    struct Response {
        let status: Int
        var isGRPC = false
        /// The gRPC status, as an HTTP status; `nil` until it is known.
        var grpcStatus: Int?
        /// The number of bytes still to come; `nil` if the response declares no length.
        var missing: Int?
        /// The time that the upstream asks callers to wait, in milliseconds.
        var retryAfter: Int64?
        /// The time between the end of the request and the start of the response, in milliseconds.
        var latency: Int64?

        /// The status for the breaker. Failed gRPC calls have the HTTP status 200 (gRPC over HTTP2, "Responses").
        fileprivate var outcome: Int { status == 200 ? grpcStatus ?? status : status }

        mutating func noteTrailers(_ grpcStatus: Int?) {
            if outcome == 200, let grpcStatus { self.grpcStatus = grpcStatus }
        }
    }

    /// One try of a call: its permit, its progress and its timestamps.
    struct Attempt {
        enum Progress {
            case connecting(until: Instant)
            /// The head was sent; no response has begun.
            case sent
            case responding(Response)
        }

        enum Reading { case flowing, held }

        let policy: Policy
        let began: Instant
        var progress: Progress
        /// The time of the last byte in either direction; until there is a connection, the start of the attempt.
        var lastByteAt: Instant
        /// The time when the whole request had been sent; `nil` before that.
        var requestSentAt: Instant?
        /// Whether the response is being read, or reading is paused because the client does not accept more of it.
        var reading = Reading.flowing
        /// `nil` once the outcome is reported.
        private var permit: PermitID?

        init(_ permit: PermitID, _ policy: Policy, now: Instant) {
            self.permit = permit
            self.policy = policy
            began = now
            lastByteAt = now
            progress = .connecting(until: now.advanced(byMilliseconds: policy.connect))
        }

        var response: Response? {
            get { if case .responding(let response) = progress { response } else { nil } }
            set { if let newValue { progress = .responding(newValue) } }
        }

        var isConnected: Bool { if case .connecting = progress { false } else { true } }

        mutating func reconnect(now: Instant) {
            progress = .connecting(until: now.advanced(byMilliseconds: policy.connect))
            lastByteAt = now
            requestSentAt = nil
        }

        mutating func beginResponse(_ response: Response, now: Instant) {
            var response = response
            response.latency = millisecondsSinceSent(now)
            progress = .responding(response)
            lastByteAt = now
        }

        mutating func received(_ bytes: Int, now: Instant) {
            lastByteAt = now
            if let missing = response?.missing { response?.missing = missing - bytes }
        }
    }
}

// MARK: - Times

extension ProxiedCallStateMachine.Attempt {
    /// The deadline of the try unless something happens.
    var timerDeadline: Instant {
        switch progress {
        case .connecting(let until): until
        case .sent:
            requestSentAt?.advanced(byMilliseconds: policy.firstByte) ?? lastByteAt.advanced(byMilliseconds: policy.idle)
        case .responding: lastByteAt.advanced(byMilliseconds: policy.idle)
        }
    }

    /// Returns the failure of a try that times out.
    func timeout(isClientAwaited: Bool, isBackedUp: Bool) -> ProxyFailure {
        switch progress {
        case .connecting: .connectTimeout
        case .sent where requestSentAt != nil: .firstByteTimeout
        case .sent: isClientAwaited || !isBackedUp ? .clientIsSilent : .idleTimeout
        // A stream may be silent; a response with missing bytes has stalled.
        case .responding(let response): isClientAwaited ? .clientIsSilent : response.missing == nil ? .streamIdle : .idleTimeout
        }
    }

    /// Returns whether the response is incomplete and no byte of it has arrived within the first-byte timeout.
    func isStalled(_ now: Instant) -> Bool {
        response?.missing != nil && lastByteAt.advanced(byMilliseconds: policy.firstByte) <= now
    }

    private func millisecondsSinceSent(_ now: Instant) -> Int64? {
        requestSentAt.map { (now.nanoseconds - $0.nanoseconds) / 1_000_000 }
    }
}

// MARK: - The outcome

extension ProxiedCallStateMachine.Attempt {
    /// Reports the response received so far as good. The breaker still judges its status.
    /// - Returns: `nil` if the outcome was reported before.
    mutating func reportSuccess() -> ProxiedCallStateMachine.Report? {
        report(
            OutcomeReport(
                outcome: .ok, latencyMilliseconds: response?.latency, status: response?.outcome,
                retryAfterMilliseconds: response?.retryAfter))
    }

    mutating func report(_ failure: ProxyFailure, now: Instant) -> ProxiedCallStateMachine.Report? {
        let latency = response?.latency ?? millisecondsSinceSent(now)
        switch failure.verdict {
        case .response: return reportSuccess()
        case .service: return report(OutcomeReport(outcome: .error, latencyMilliseconds: latency, status: response?.outcome))
        // An unfinished call counts as slow if it ran long enough.
        case .neutral: return report(.unfinished(afterMilliseconds: latency))
        }
    }

    private mutating func report(_ outcome: OutcomeReport) -> ProxiedCallStateMachine.Report? {
        defer { permit = nil }
        return permit.map { .init(permit: $0, outcome: outcome) }
    }
}
