internal import NIOHTTP1

/// How calls of gRPC end: with a status in the trailers, or in the head where there is nothing else (gRPC over HTTP2, "Responses").
enum GRPC {
    /// <https://grpc.github.io/grpc/core/md_doc_statuscodes.html>
    enum Status: Int {
        case ok = 0
        case cancelled, unknown, invalidArgument, deadlineExceeded, notFound, alreadyExists, permissionDenied, resourceExhausted,
            failedPrecondition, aborted, outOfRange, unimplemented, `internal`, unavailable, dataLoss, unauthenticated

        /// What a breaker makes of it: the HTTP status that means the same.
        var httpStatus: Int {
            switch self {
            case .ok: 200
            case .cancelled: 499
            case .invalidArgument, .failedPrecondition, .outOfRange: 400
            case .unauthenticated: 401
            case .permissionDenied: 403
            case .notFound: 404
            case .alreadyExists, .aborted: 409
            case .resourceExhausted: 429
            case .unknown, .internal, .dataLoss: 500
            case .unimplemented: 501
            case .unavailable: 503
            case .deadlineExceeded: 504
            }
        }

        /// What a client is told of a problem that is this sidecar's to tell.
        init(_ code: HTTPProblem.Code) {
            self =
                switch code {
                case .invalid, .tooLarge: .invalidArgument
                case .unauthenticated: .unauthenticated
                case .forbidden, .foreignOrigin, .misdirected: .permissionDenied
                case .unknownPath, .unknownLock, .unknownService, .methodNotAllowed: .unimplemented
                case .held, .lost: .aborted
                case .limited, .busy: .resourceExhausted
                case .open, .unavailable, .unreplicated, .upstreamFailed: .unavailable
                case .upstreamTimeout: .deadlineExceeded
                case .cancelled: .cancelled
                case .internal: .internal
                }
        }
    }

    static func isSpoken(in headers: HTTPHeaders) -> Bool {
        headers.first(name: "Content-Type").map { $0.hasPrefix("application/grpc") } ?? false
    }

    static func status(in headers: HTTPHeaders) -> Status? {
        headers.first(name: "grpc-status").flatMap { Int($0) }.map { Status(rawValue: $0) ?? .unknown }
    }

    /// A problem as gRPC's clients understand it.
    static func answer(_ problem: HTTPProblem) -> HTTPAnswer {
        var answer = HTTPAnswer(.ok)
        answer.isRelayed = true
        answer.headers.add(name: "Content-Type", value: "application/grpc")
        answer.headers.add(name: "grpc-status", value: "\(Status(problem.code).rawValue)")
        answer.headers.add(
            name: "grpc-message", value: PercentEncoding.encode(problem.detail, but: " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"))
        answer.headers.add(contentsOf: problem.headers)
        // For how long a client that tries again by itself leaves the service alone (gRFC A6, "Pushback").
        if case .integer(let milliseconds)? = problem.members["retry_after_ms"], milliseconds >= 0 {
            answer.headers.add(name: "grpc-retry-pushback-ms", value: "\(milliseconds)")
        }
        return answer
    }
}
