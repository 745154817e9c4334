internal import InterlockCore
package import NIOHTTP1
internal import SidecarTelemetry

/// The fields of W3C Trace Context.
package enum TraceFields {
    package static let parent = "traceparent"
    package static let state = "tracestate"
}

extension Tracer {
    /// Begins the span of a request, with the names that OpenTelemetry's conventions require:
    /// <https://opentelemetry.io/docs/specs/semconv/http/http-spans/>
    /// - Returns: the span; `nil` if the request is not traced.
    func begin(_ head: HTTPRequestHead, _ target: HTTPTarget, _ route: HTTPRoute) -> Span? {
        let method = Self.methodName(for: head.method)
        let name = "\(method == Self.otherMethod ? "HTTP" : method) \(route.path)"
        guard let span = begin(name, kind: .server, parent: Self.parent(in: head.headers)) else { return nil }
        span.set("http.request.method", method)
        span.set("http.route", route.path)
        span.set("url.path", String(target.path))
        return span
    }

    private static func parent(in headers: HTTPHeaders) -> TraceContext? {
        let parents = headers[TraceFields.parent]
        guard parents.count == 1, let text = parents.first else { return nil }
        // Space around a field's value is not part of it (RFC 9110, section 5.5).
        let state = headers[canonicalForm: TraceFields.state].joined(separator: ",")
        let words = text.split(omittingEmptySubsequences: true) { $0 == " " || $0 == "\t" }
        return words.count == 1 ? TraceContext(traceparent: words[0], state: state) : nil
    }

    static let otherMethod = "_OTHER"

    /// Returns the name of a method in OpenTelemetry's conventions. All methods that clients make up have one name.
    package static func methodName(for method: HTTPMethod) -> String {
        switch method {
        case .GET, .HEAD, .POST, .PUT, .DELETE, .CONNECT, .OPTIONS, .TRACE, .PATCH: method.rawValue
        default: otherMethod
        }
    }
}
