public import InterlockCore
internal import Tracing

/// Guarded calls for Swift programs: `coordinator.services`.
///
/// A call is made with a permit of its service: its breaker, its limits and its places in this program have agreed. What became
/// of it is reported, so that the breaker sees failures and slow calls.
public struct Services: Sendable {
    let coordinator: Coordinator

    /// Makes a call to a service.
    ///
    /// `operation` runs once, where the caller runs, when the service may be called, and not at all otherwise. The time spent in
    /// it is the call's latency. Cancelling the task gives up the wait; `operation` itself sees the cancellation as any
    /// other code does. When it ends by that, the call counts for nothing.
    ///
    /// - Parameters:
    ///   - service: the name of a configured service.
    ///   - cost: how much the call takes from the service's limits, 1 or more.
    ///   - subject: whom it counts for in the limits that count per subject.
    ///   - patience: how long to wait at most: at a limit, for a place, and through a pause that a limit made. By default that
    ///     of the service's `onLimit` when its action is `wait` or `trip`, else none. At most the configuration's
    ///     `maximumWait`.
    ///   - judge: says what became of the call. By default a value is a success and an error a failure, except that a call
    ///     that was cancelled says nothing. Where the judge gives no latency, the measured one is reported.
    ///   - operation: the call. When the program has a tracer, it runs in the span `interlock.upstream`.
    /// - Returns: what `operation` returns.
    /// - Throws: `ServiceCallError` when the call was not made; else what `operation` throws.
    public func call<Value>(
        _ service: String, cost: Int64 = 1, subject: String? = nil, patience: Duration? = nil,
        judgedBy judge: (Result<Value, any Error>) -> OutcomeReport = Services.judge,
        operation: () async throws -> Value
    ) async throws -> Value {
        try await ProgramSpan.within("call", of: service) { span in
            let permit = try await permit(service, cost: cost, subject: subject, patience: patience)
            let begun = coordinator.clock.now()
            let result: Result<Value, any Error>
            do {
                result = .success(
                    try await ProgramSpan.within("upstream", kind: .client, of: service) { _ in try await operation() })
            } catch {
                result = .failure(error)
            }
            let latency = Duration.nanoseconds(coordinator.clock.now().nanoseconds - begun.nanoseconds)
            var report = judge(result)
            if report.latency == nil { report.latency = latency }
            span?.set("interlock.outcome", report.outcome.rawValue)
            await coordinator.settlePermit(service: service, permit: permit, report)
            return try result.get()
        }
    }

    /// How calls are judged by default: a value is a success and an error a failure; a call that was cancelled, by an error that
    /// says so or with its task, says nothing.
    public static func judge<Value>(_ result: Result<Value, any Error>) -> OutcomeReport {
        switch result {
        case .success: OutcomeReport(outcome: .ok)
        case .failure(let error): OutcomeReport(outcome: error is CancellationError || Task.isCancelled ? .ignore : .error)
        }
    }

    private func permit(_ service: String, cost: Int64, subject: String?, patience: Duration?) async throws -> PermitID {
        let answer: PermitAnswer
        do {
            answer = try await coordinator.acquirePermit(service: service, cost: cost, subject: subject, patience: patience)
        } catch let error as InterlockError {
            throw ServiceCallError(error, service: service)
        }
        switch answer {
        case .granted(let permit, _): return permit
        case .refused(let reason, let state, let retryAfter):
            throw ServiceCallError(refused: reason, service: service, state: state, retryAfter: retryAfter)
        case .failed(let error): throw ServiceCallError(error, service: service)
        }
    }
}

extension Coordinator {
    /// Guarded calls to services.
    public nonisolated var services: Services { Services(coordinator: self) }
}

/// Why a guarded call was not made.
public struct ServiceCallError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on. Later versions may know more codes: a `switch` needs a `default`.
    public struct Code: Hashable, Sendable {
        private let name: String

        /// The service's breaker is open.
        public static let open = Code(name: "open")
        /// A limit of the service is reached.
        public static let limited = Code(name: "limited")
        /// Too many calls to the service are under way in this program.
        public static let busy = Code(name: "busy")
        /// Redis cannot be reached or cannot serve, and the service's `whenRedisIsDown` is `deny`; or the coordinator is
        /// stopping.
        public static let unavailable = Code(name: "unavailable")
        /// No such service is configured.
        public static let unknownService = Code(name: "unknownService")
        /// The call's own arguments are wrong.
        public static let invalid = Code(name: "invalid")
        /// The task was cancelled before the call was made.
        public static let cancelled = Code(name: "cancelled")
    }

    /// Why the call was not made.
    public var code: Code
    /// The service's name, as the caller gave it.
    public var service: String
    /// The breaker's state, where it was looked at.
    public var state: BreakerSnapshot.State?
    /// When the same call may be made; `nil`: unknown.
    public var retryAfter: Duration?
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    package init(
        _ code: Code, service: String, state: BreakerSnapshot.State? = nil, retryAfter: Duration? = nil, message: String
    ) {
        self.code = code
        self.service = service
        self.state = state
        self.retryAfter = retryAfter
        self.message = message
    }

    /// The message.
    public var description: String { message }
}

extension ServiceCallError {
    /// - Parameter milliseconds: when to try again; -1: nobody knows.
    init(
        refused reason: PermitAnswer.Reason, service: String, state: BreakerSnapshot.State, retryAfter milliseconds: Int64
    ) {
        let canHelp = milliseconds >= 0
        let advice =
            canHelp
            ? "try again in \(milliseconds) ms, or give it more patience"
            : "nobody knows for how long"
        switch reason {
        case .open:
            self.init(.open, service: service, message: "the breaker of the service \"\(service)\" is open: \(advice)")
        case .limited:
            self.init(.limited, service: service, message: "a limit of the service \"\(service)\" is reached: \(advice)")
        case .busy:
            self.init(
                .busy, service: service,
                message: "all places for calls to the service \"\(service)\" are taken in this program: \(advice)")
        }
        self.state = state
        retryAfter = canHelp ? .milliseconds(milliseconds) : nil
    }

    init(_ error: InterlockError, service: String) {
        let code: Code =
            switch error.code.known {
            case .unknownService: .unknownService
            case .invalid: .invalid
            case .cancelled: .cancelled
            case .unavailable, .unreplicated, .other: .unavailable
            }
        self.init(code, service: service, message: error.message)
    }
}

extension Coordinator {
    /// A permit for a call that waits as its service says, unless its caller says how long.
    func acquirePermit(
        service: String, cost: Int64, subject: String?, patience: Duration?
    ) async throws -> PermitAnswer {
        try LimitRequest.check(cost: cost, subject: subject)
        let policy = definition(ofService: service)?.onLimit
        let patience = patience ?? (policy.map { $0.action == .deny ? .zero : $0.patience } ?? .zero)
        return try await acquirePermit(
            service: service, cost: cost, subject: subject, waitMilliseconds: max(0, patience.wholeMilliseconds))
    }

    /// Reports what became of a permitted call, also for a caller who was cancelled. It takes no longer than Redis may; a
    /// report that fails is not worth an error: the call was made.
    func settlePermit(service: String, permit: PermitID, _ report: OutcomeReport) async {
        await withCheckedContinuation { continuation in
            calls.reportPermit(
                service: service, permit: permit, report,
                completion: Completion { _, _ in
                    continuation.resume()
                    return true
                })
        }
    }
}
