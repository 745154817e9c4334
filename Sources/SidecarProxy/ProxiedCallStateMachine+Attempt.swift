internal import InterlockCore

extension ProxiedCallStateMachine {
    /// The properties of a response that affect the call.
    struct Response {
        let status: Int
        var isGRPC = false
        /// The gRPC status, as an HTTP status; `nil` until it is known.
        var grpcStatus: Int?
        /// The number of bytes that have yet to arrive; `nil` if the response declares no length.
        var missingBytes: Int?
        /// The time that the upstream asks callers to wait.
        var retryAfterMilliseconds: Int64?
        /// The time between the end of the request and the start of the response.
        var latencyMilliseconds: Int64?

        /// The status for the breaker. Failed gRPC calls have the HTTP status 200 (gRPC over HTTP2, "Responses").
        fileprivate var outcomeStatus: Int { status == 200 ? grpcStatus ?? status : status }

        /// Applies the gRPC status of the trailers, unless the call has failed already.
        mutating func applyTrailers(_ grpcStatus: Int?) {
            if outcomeStatus == 200, let grpcStatus { self.grpcStatus = grpcStatus }
        }
    }

    /// One attempt of a call: its permit, its progress and its timestamps.
    struct Attempt {
        enum Progress {
            case connecting(until: Instant)
            /// The head was sent; no response has begun.
            case sent
            case responding(Response)
        }

        /// Whether the response is read from the upstream.
        enum Reading {
            case flowing
            /// The client does not accept more of the response.
            case held
        }

        let policy: Policy
        let startedAt: Instant
        var progress: Progress
        /// The time of the last byte in either direction; until there is a connection, the start of the attempt.
        var lastByteAt: Instant
        /// The time when the whole request had been sent; `nil` before that.
        var requestSentAt: Instant?
        var reading = Reading.flowing
        /// The permit; `nil` once its outcome is reported.
        private var permit: PermitID?

        init(_ permit: PermitID, _ policy: Policy, now: Instant) {
            self.permit = permit
            self.policy = policy
            startedAt = now
            lastByteAt = now
            progress = .connecting(until: now.advanced(byMilliseconds: policy.connectMilliseconds))
        }

        var response: Response? {
            get { if case .responding(let response) = progress { response } else { nil } }
            set { if let newValue { progress = .responding(newValue) } }
        }

        var isConnected: Bool { if case .connecting = progress { false } else { true } }

        /// Waits for another connection on which to resend the request.
        mutating func reconnect(now: Instant) {
            progress = .connecting(until: now.advanced(byMilliseconds: policy.connectMilliseconds))
            lastByteAt = now
            requestSentAt = nil
        }

        mutating func beginResponse(_ response: Response, now: Instant) {
            var response = response
            response.latencyMilliseconds = millisecondsSinceSent(now)
            progress = .responding(response)
            lastByteAt = now
        }

        mutating func partReceived(_ byteCount: Int, now: Instant) {
            lastByteAt = now
            if let missingBytes = response?.missingBytes { response?.missingBytes = missingBytes - byteCount }
        }
    }
}

// MARK: - Times

extension ProxiedCallStateMachine.Attempt {
    /// The time at which the attempt times out unless it makes progress first.
    var timerDeadline: Instant {
        switch progress {
        case .connecting(let until): until
        case .sent:
            requestSentAt?.advanced(byMilliseconds: policy.firstByteMilliseconds)
                ?? lastByteAt.advanced(byMilliseconds: policy.idleMilliseconds)
        case .responding: lastByteAt.advanced(byMilliseconds: policy.idleMilliseconds)
        }
    }

    /// Returns the failure of an attempt that times out.
    func timeout(isClientAwaited: Bool, isBackedUp: Bool) -> ProxyFailure {
        switch progress {
        case .connecting: .connectTimeout
        case .sent where requestSentAt != nil: .firstByteTimeout
        case .sent: isClientAwaited || !isBackedUp ? .clientIsSilent : .idleTimeout
        // A stream may be silent, but a response of a declared length has stalled.
        case .responding where isClientAwaited: .clientIsSilent
        case .responding(let response): response.missingBytes == nil ? .streamIdle : .idleTimeout
        }
    }

    /// Returns whether the response is incomplete and no byte of it has arrived within the first-byte timeout.
    func isStalled(_ now: Instant) -> Bool {
        response?.missingBytes != nil && lastByteAt.advanced(byMilliseconds: policy.firstByteMilliseconds) <= now
    }

    private func millisecondsSinceSent(_ now: Instant) -> Int64? {
        requestSentAt.map { (now.nanoseconds - $0.nanoseconds) / 1_000_000 }
    }
}

// MARK: - The outcome

extension ProxiedCallStateMachine.Attempt {
    /// Returns a report that the attempt succeeded. The breaker still judges the status of the response.
    /// - Returns: `nil` if the outcome was reported before.
    mutating func reportSuccess() -> ProxiedCallStateMachine.Report? {
        report(
            OutcomeReport(
                outcome: .ok, latencyMilliseconds: response?.latencyMilliseconds, status: response?.outcomeStatus,
                retryAfterMilliseconds: response?.retryAfterMilliseconds))
    }

    /// Returns a report of the failure.
    /// - Returns: `nil` if the outcome was reported before.
    mutating func report(_ failure: ProxyFailure, now: Instant) -> ProxiedCallStateMachine.Report? {
        let latencyMilliseconds = response?.latencyMilliseconds ?? millisecondsSinceSent(now)
        switch failure.verdict {
        case .response: return reportSuccess()
        case .service:
            return report(
                OutcomeReport(
                    outcome: .error, latencyMilliseconds: latencyMilliseconds, status: response?.outcomeStatus))
        // An unfinished call counts as slow if it ran long enough.
        case .neutral: return report(.unfinished(afterMilliseconds: latencyMilliseconds))
        }
    }

    private mutating func report(_ outcome: OutcomeReport) -> ProxiedCallStateMachine.Report? {
        defer { permit = nil }
        return permit.map { .init(permit: $0, outcome: outcome) }
    }
}
