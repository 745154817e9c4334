internal import SidecarSettings

/// The status with which a gRPC call ended.
/// <https://grpc.github.io/grpc/core/md_doc_statuscodes.html>
package enum GRPCStatus: Int {
    case ok = 0
    case cancelled, unknown, invalidArgument, deadlineExceeded, notFound, alreadyExists, permissionDenied, resourceExhausted,
        failedPrecondition, aborted, outOfRange, unimplemented, `internal`, unavailable, dataLoss, unauthenticated

    /// The HTTP status with the same meaning, by which a breaker judges the call.
    package var httpStatus: Int {
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
        // The caller asks for a method that the service does not have.
        case .unimplemented: 404
        case .unavailable: 503
        case .deadlineExceeded: 504
        }
    }

    static func isUsed(in contentType: String?) -> Bool { contentType?.lowercased().hasPrefix("application/grpc") ?? false }

    /// Returns a message in the encoding of the protocol (gRPC over HTTP2, "Responses").
    static func encoded(_ message: String) -> String {
        PercentEncoding.encode(message, but: " !\"#$&'()*+,/:;<=>?@[\\]^`{|}")
    }
}
