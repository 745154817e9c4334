package import NIOHTTP1

/// How calls of gRPC end: with a status in the trailers, or in the head where there is nothing else (gRPC over HTTP2, "Responses").
package enum GRPC {
    package static func isSpoken(in headers: HTTPHeaders) -> Bool {
        GRPCStatus.isSpoken(in: headers.first(name: "Content-Type"))
    }

    package static func status(in headers: HTTPHeaders) -> GRPCStatus? {
        headers.first(name: "grpc-status").flatMap { Int($0) }.map { GRPCStatus(rawValue: $0) ?? .unknown }
    }

    /// A problem as gRPC's clients understand it.
    package static func answer(_ problem: HTTPProblem) -> HTTPAnswer {
        var answer = HTTPAnswer(.ok)
        answer.isRelayed = true
        answer.headers.add(name: "Content-Type", value: "application/grpc")
        answer.headers.add(name: "grpc-status", value: "\(GRPCStatus(problem.code).rawValue)")
        answer.headers.add(
            name: "grpc-message", value: GRPCStatus.encoded(problem.detail))
        answer.headers.add(contentsOf: problem.headers)
        // For how long a client that tries again by itself leaves the service alone (gRFC A6, "Pushback").
        if case .integer(let milliseconds)? = problem.members["retry_after_ms"], milliseconds >= 0 {
            answer.headers.add(name: "grpc-retry-pushback-ms", value: "\(milliseconds)")
        }
        return answer
    }
}

extension GRPCStatus {
    /// What a client is told of a problem that is this sidecar's to tell.
    init(_ code: HTTPProblem.Code) {
        self =
            switch code {
            case .invalid, .tooLarge, .fieldsTooLarge: .invalidArgument
            case .unauthenticated: .unauthenticated
            case .forbidden, .foreignOrigin, .misdirected: .permissionDenied
            case .unknownPath, .unknownLock, .unknownService, .methodNotAllowed, .notImplemented: .unimplemented
            case .held, .lost: .aborted
            case .limited, .busy: .resourceExhausted
            case .open, .unavailable, .unreplicated, .upstreamFailed: .unavailable
            case .upstreamTimeout: .deadlineExceeded
            case .cancelled: .cancelled
            case .internal: .internal
            }
    }
}
