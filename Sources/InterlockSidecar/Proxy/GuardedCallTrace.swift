internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// The spans of one call through the proxy: the call, its permit with the wait for it, and each try.
///
/// Attributes are those of OpenTelemetry's conventions for HTTP where there are some, and `interlock.*` else:
/// <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>
final class GuardedCallTrace {
    private static let parent = "traceparent"
    private static let state = "tracestate"
    /// Shorter is no wait: the loop had something else to do. In nanoseconds.
    private static let shortestWait: Int64 = 1_000_000

    private let method: String
    private let service: String
    private let call: Span
    private var permit: (span: Span, askedAt: Instant)?
    private var attempt: Span?

    /// `nil`: the call is not traced; what it brought of a trace is passed on as it came.
    init?(_ request: HTTPCall, service: String, with tracer: Tracer) {
        let parent = request.header(Self.parent).flatMap { text in
            TraceContext(traceparent: text, state: request.head.headers[canonicalForm: Self.state].joined(separator: ","))
        }
        method = request.head.method.rawValue
        guard let call = tracer.begin("\(method) /proxy/{service}", kind: .server, parent: parent) else { return nil }
        call.set("http.request.method", method)
        call.set("http.route", "/proxy/{service}/{path}")
        call.set("url.path", String(request.target.path))
        call.set("interlock.service", service)
        self.call = call
        self.service = service
    }

    /// The permit is asked for.
    func asks(now: Instant) {
        let span = call.child("permit")
        span.set("interlock.service", service)
        permit = (span, now)
    }

    /// - Parameter askedAt: when Redis was asked for this answer; until then it has waited. `nil`: it was not asked.
    func decided(_ answer: PermitAnswer, askedAt: Instant?) {
        guard let (span, asked) = permit else { return }
        permit = nil
        let now = call.now
        let sentAt = askedAt.map { span.startedAt + max(0, $0.nanoseconds - asked.nanoseconds) } ?? now
        if sentAt - span.startedAt >= Self.shortestWait { span.child("wait", at: span.startedAt).end(at: sentAt) }
        if askedAt != nil { span.child("take", at: sentAt).end(at: now) }
        switch answer {
        case .granted(_, let state):
            span.set("interlock.decision", "granted")
            span.set("interlock.breaker.state", state.rawValue)
        case .refused(let reason, let state, _):
            span.set("interlock.decision", reason.rawValue)
            span.set("interlock.breaker.state", state.rawValue)
        case .failed(let error):
            span.set("interlock.decision", "failed")
            span.fail(error.message)
        }
        span.end(at: now)
    }

    /// The upstream is tried: it is told whose call this is.
    func tries(number: Int, at authority: String, _ headers: inout HTTPHeaders) {
        let span = call.child(number == 1 ? "upstream" : "retry", kind: .client)
        span.set("http.request.method", method)
        span.set("server.address", authority)
        if number > 1 { span.set("http.request.resend_count", Int64(number - 1)) }
        attempt = span
        headers.replaceOrAdd(name: Self.parent, value: span.context.traceparent)
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

    /// - Parameter status: of the answer to the client.
    func relays(_ status: HTTPResponseStatus) {
        call.set("http.response.status_code", Int64(status.code))
        if status.code >= 500 { call.fail("status \(status.code)") }
    }

    /// All is over, whatever came of it.
    func ended() {
        permit?.span.end()
        permit = nil
        tryEnded()
        call.end()
    }
}
