internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarListeners
internal import SidecarTelemetry

/// The child spans of a call through the proxy: one for each permit request and one for each attempt.
final class GuardedCallTrace {
    private let callSpan: Span
    private let method: String
    private let service: String
    private let coordinator: LoopBoundCoordinator
    private var permitTrace: StepTrace?
    private var attemptSpan: Span?

    /// Returns `nil` if the call is not traced. The caller's trace fields are then forwarded unchanged.
    init?(_ request: HTTPCall, service: String, coordinator: LoopBoundCoordinator) {
        guard let span = request.span else { return nil }
        callSpan = span
        method = Tracer.methodName(for: request.head.method)
        self.service = service
        self.coordinator = coordinator
        span.set("interlock.service", service)
    }

    /// Begins the span of a permit request.
    /// - Parameter waitMilliseconds: the maximum wait.
    func permitRequested(waitMilliseconds: Int64) {
        permitTrace = StepTrace(.permit, service, waitMilliseconds: waitMilliseconds, of: callSpan, coordinator: coordinator)
    }

    /// Ends the span of the permit request.
    func permitDecided(_ result: PermitResult) {
        permitTrace?.stepAnswered(result)
        permitTrace = nil
    }

    /// Begins the span of an attempt, and adds its context to the header fields for the upstream.
    func beginAttempt(number: Int, at authority: String, _ headers: inout HTTPHeaders) {
        let span = callSpan.child(number == 1 ? "upstream" : "retry", kind: .client)
        span.set("http.request.method", method)
        span.set("server.address", authority)
        if number > 1 { span.set("http.request.resend_count", Int64(number - 1)) }
        attemptSpan = span
        headers.replaceOrAdd(name: TraceFields.parent, value: span.context.traceparent)
        // Without a valid `traceparent`, `tracestate` belongs to no known trace.
        if !callSpan.hasParent { headers.remove(name: TraceFields.state) }
    }

    /// Records the status of the attempt's response.
    func responseReceived(_ status: HTTPResponseStatus) {
        attemptSpan?.set("http.response.status_code", Int64(status.code))
        if status.code >= 500 { attemptSpan?.fail("status \(status.code)") }
    }

    /// Ends the attempt's span with the reason of its failure.
    func attemptFailed(_ reason: String) {
        attemptSpan?.fail(reason)
        attemptEnded()
    }

    /// Ends the attempt's span.
    func attemptEnded() {
        attemptSpan?.end()
        attemptSpan = nil
    }

    /// Ends the spans that are still open at the end of the call.
    func callEnded() {
        permitTrace?.abandon()
        permitTrace = nil
        attemptEnded()
    }
}
