internal import InterlockCore
internal import NIOHTTP1

/// The fields of W3C Trace Context.
enum TraceFields {
    static let parent = "traceparent"
    static let state = "tracestate"
}

extension Tracer {
    /// The span of a request, as OpenTelemetry's conventions have it: <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>
    /// - Returns: `nil`: it is not traced.
    func begin(_ head: HTTPRequestHead, _ target: HTTPTarget, _ route: HTTPRoute) -> Span? {
        let parent = head.headers.first(name: TraceFields.parent).flatMap { text in
            TraceContext(
                traceparent: text, state: head.headers[canonicalForm: TraceFields.state].joined(separator: ","))
        }
        guard let span = begin("\(head.method.rawValue) \(route.path)", kind: .server, parent: parent) else { return nil }
        span.set("http.request.method", head.method.rawValue)
        span.set("http.route", route.path)
        span.set("url.path", String(target.path))
        return span
    }
}
