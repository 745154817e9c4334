internal import SidecarSettings

/// The status with which a gRPC call ended.
/// <https://grpc.github.io/grpc/core/md_doc_statuscodes.html>
package enum GRPCStatus: Int {
    case ok = 0
    case cancelled, unknown, invalidArgument, deadlineExceeded, notFound, alreadyExists, permissionDenied, resourceExhausted,
        failedPrecondition, aborted, outOfRange, unimplemented, `internal`, unavailable, dataLoss, unauthenticated

    /// The HTTP status with the same meaning. Breakers judge the call by it.
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
        // The caller requested a method that the service does not have.
        case .unimplemented: 404
        case .unavailable: 503
        case .deadlineExceeded: 504
        }
    }

    /// Returns whether a message with this content type belongs to a gRPC call.
    static func isUsed(in contentType: String?) -> Bool { contentType?.lowercased().hasPrefix("application/grpc") ?? false }

    /// Returns a status message in the encoding of `grpc-message` (gRPC over HTTP2, "Responses").
    static func encoded(_ message: String) -> String {
        PercentEncoding.encode(message, but: " !\"#$&'()*+,/:;<=>?@[\\]^`{|}")
    }
}
