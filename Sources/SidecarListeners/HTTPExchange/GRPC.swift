package import NIOHTTP1

/// The fields of gRPC over HTTP/2. A call ends with a status in the trailers, or in the head if nothing follows (gRPC
/// over HTTP2, "Responses").
package enum GRPC {
    /// Returns whether a message with these fields belongs to a gRPC call.
    package static func isUsed(in headers: HTTPHeaders) -> Bool {
        GRPCStatus.isUsed(in: headers.first(name: "Content-Type"))
    }

    /// Returns the status of a call that ends with these fields; `nil` if they have none.
    package static func status(in headers: HTTPHeaders) -> GRPCStatus? {
        headers.first(name: "grpc-status").flatMap { Int($0) }.map { GRPCStatus(rawValue: $0) ?? .unknown }
    }

    /// Returns a problem in the form that gRPC clients understand.
    package static func response(_ problem: HTTPProblem) -> HTTPResponse {
        var response = HTTPResponse(.ok)
        response.isRelayed = true
        response.headers.add(name: "Content-Type", value: "application/grpc")
        response.headers.add(name: "grpc-status", value: "\(GRPCStatus(problem.code).rawValue)")
        response.headers.add(
            name: "grpc-message", value: GRPCStatus.encoded(problem.detail))
        response.headers.add(contentsOf: problem.headers)
        // gRPC clients wait for this time before an automatic retry (gRFC A6, "Pushback").
        if case .integer(let milliseconds)? = problem.fields["retry_after_ms"], milliseconds >= 0 {
            response.headers.add(name: "grpc-retry-pushback-ms", value: "\(milliseconds)")
        }
        return response
    }
}

extension GRPCStatus {
    /// Creates the status that a client gets for a problem that the sidecar reports.
    init(_ code: HTTPProblem.Code) {
        self =
            switch code {
            case .invalid, .tooLarge, .fieldsTooLarge: .invalidArgument
            case .unauthenticated: .unauthenticated
            case .forbidden, .foreignOrigin, .misdirected: .permissionDenied
            case .unknownPath, .unknownLock, .unknownService, .noURL, .methodNotAllowed, .notImplemented: .unimplemented
            case .held, .lost: .aborted
            case .limited, .busy: .resourceExhausted
            case .open, .unavailable, .unreplicated, .upstreamFailed: .unavailable
            case .upstreamTimeout: .deadlineExceeded
            case .cancelled: .cancelled
            case .internal: .internal
            }
    }
}
