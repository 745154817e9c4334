internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarListeners
internal import SidecarTelemetry

/// The spans within one call through the proxy: its permits, and each try.
final class GuardedCallTrace {
    private let call: Span
    private let method: String
    private let service: String
    private let calls: CoordinatorCalls
    private var permit: StepTrace?
    private var attempt: Span?

    /// `nil`: the call is not traced; what it brought of a trace is passed on as it came.
    init?(_ request: HTTPCall, service: String, calls: CoordinatorCalls) {
        guard let span = request.span else { return nil }
        call = span
        method = Tracer.word(for: request.head.method)
        self.service = service
        self.calls = calls
        span.set("interlock.service", service)
    }

    /// The permit is asked for, and may wait so many milliseconds.
    func asks(wait: Int64) { permit = StepTrace(.permit, service, wait: wait, of: call, calls: calls) }

    func decided(_ answer: PermitAnswer) {
        permit?.answered(answer)
        permit = nil
    }

    /// The upstream is tried: it is told whose call this is.
    func tries(number: Int, at authority: String, _ headers: inout HTTPHeaders) {
        let span = call.child(number == 1 ? "upstream" : "retry", kind: .client)
        span.set("http.request.method", method)
        span.set("server.address", authority)
        if number > 1 { span.set("http.request.resend_count", Int64(number - 1)) }
        attempt = span
        headers.replaceOrAdd(name: TraceFields.parent, value: span.context.traceparent)
        // It belongs to a trace that was not said, or not so that it could be read.
        if !call.hasParent { headers.remove(name: TraceFields.state) }
    }

    /// - Parameter status: of the try's answer.
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

    /// All is over, whatever came of it.
    func ended() {
        permit?.givenUp()
        permit = nil
        tryEnded()
    }
}
