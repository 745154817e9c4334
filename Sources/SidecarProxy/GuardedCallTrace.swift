internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarListeners
internal import SidecarTelemetry

/// The child spans of a call through the proxy: one for each permit request and one for each try.
final class GuardedCallTrace {
    private let call: Span
    private let method: String
    private let service: String
    private let calls: CoordinatorCalls
    private var permit: StepTrace?
    private var attempt: Span?

    /// Returns `nil` if the call is not traced. The caller's trace fields are then forwarded unchanged.
    init?(_ request: HTTPCall, service: String, calls: CoordinatorCalls) {
        guard let span = request.span else { return nil }
        call = span
        method = Tracer.methodName(for: request.head.method)
        self.service = service
        self.calls = calls
        span.set("interlock.service", service)
    }

    /// Begins the span of a permit request.
    /// - Parameter wait: the maximum wait, in milliseconds.
    func permitRequested(wait: Int64) { permit = StepTrace(.permit, service, wait: wait, of: call, calls: calls) }

    func permitDecided(_ result: PermitResult) {
        permit?.answered(result)
        permit = nil
    }

    /// Begins the span of a try, and adds its context to the header fields for the upstream.
    func beginAttempt(number: Int, at authority: String, _ headers: inout HTTPHeaders) {
        let span = call.child(number == 1 ? "upstream" : "retry", kind: .client)
        span.set("http.request.method", method)
        span.set("server.address", authority)
        if number > 1 { span.set("http.request.resend_count", Int64(number - 1)) }
        attempt = span
        headers.replaceOrAdd(name: TraceFields.parent, value: span.context.traceparent)
        // Without a valid `traceparent`, `tracestate` belongs to no known trace.
        if !call.hasParent { headers.remove(name: TraceFields.state) }
    }

    /// - Parameter status: the status of the try's response.
    func answered(_ status: HTTPResponseStatus) {
        attempt?.set("http.response.status_code", Int64(status.code))
        if status.code >= 500 { attempt?.fail("status \(status.code)") }
    }

    func tryFailed(_ reason: String) {
        attempt?.fail(reason)
        tryEnded()
    }

    func tryEnded() {
        attempt?.end()
        attempt = nil
    }

    /// Ends the open spans, whatever the result of the call.
    func ended() {
        permit?.abandon()
        permit = nil
        tryEnded()
    }
}
