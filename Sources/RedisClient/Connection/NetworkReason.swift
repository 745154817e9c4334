internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// A plain explanation of why a connection failed or was lost, or why an address cannot be listened on. The
/// descriptions of NIO's errors are written for programmers.
package struct NetworkReason: CustomStringConvertible {
    package let description: String
    /// The system's error code, if the error came from the system.
    package let errorCode: Int32?

    package init(_ error: any Error) {
        // Report the error of the last attempted address.
        let lastError = (error as? NIOConnectionError)?.connectionErrors.last?.error ?? error
        errorCode = (lastError as? IOError)?.errnoCode
        description = errorCode.map(Self.explanation(ofCode:)) ?? Self.explanation(of: lastError)
    }

    /// Returns a clause that explains why this peer cannot be reached.
    /// - Parameter name: the name of the peer.
    package func sentence(connectingTo name: String) -> String {
        errorCode == ECONNREFUSED ? "\(name) refuses connections" : "cannot connect to \(name): \(self)"
    }

    private static func explanation(ofCode code: Int32) -> String {
        switch code {
        case ECONNREFUSED: "the connection was refused"
        case ECONNRESET, EPIPE: "the connection was reset"
        case EADDRINUSE: "the port is in use"
        case EADDRNOTAVAIL: "this host has no such address, or no free port"
        case EACCES, EPERM: "permission denied"
        case ENOENT: "no such file or directory"
        case EMFILE, ENFILE: "too many open files (ulimit -n)"
        case ETIMEDOUT: timedOut
        default: String(cString: strerror(code))
        }
    }

    private static let timedOut = "the connection timed out"

    private static func explanation(of error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError: "cannot resolve \(error.host)"
        case let error as SocketAddressError.UnknownHost: "cannot resolve \(error.host)"
        case SocketAddressError.unixDomainSocketPathTooLong: "the path is too long for a Unix socket"
        case is SocketAddressError: "the address cannot be used"
        case ChannelError.connectTimeout: timedOut
        case is ChannelError: "the connection was closed"
        case NIOSSLError.handshakeFailed(let reason): "the TLS handshake failed: \(explanation(ofHandshake: reason))"
        case NIOSSLError.uncleanShutdown: "the connection was closed without notice"
        case let error as NIOSSLExtraError where error == .failedToValidateHostname:
            "its certificate is for a different host name"
        case let error as NIOSSLExtraError where error == .serverHostnameImpossibleToMatch:
            "the TLS handshake failed: no certificate can match this host name"
        default: "\(error)"
        }
    }

    /// Explains a failed handshake based on the error's OpenSSL name.
    private static func explanation(ofHandshake error: BoringSSLError) -> String {
        let errorText = "\(error)"
        let explanations = [
            ("CERTIFICATE_VERIFY_FAILED", "its certificate is not signed by a trusted authority, or has expired"),
            ("WRONG_VERSION_NUMBER", "the other side does not speak TLS"),
            ("UNSUPPORTED_PROTOCOL", "the other side supports only TLS versions older than 1.2"),
            ("PROTOCOL_VERSION", "the other side does not accept TLS 1.2 or 1.3"),
            ("UNKNOWN_CA", "the other side does not trust this side's certificate"),
            ("CERTIFICATE_REQUIRED", "the other side requires a client certificate"),
            ("NO_SHARED_CIPHER", "the two sides have no cipher in common"),
        ]
        if let (_, explanation) = explanations.first(where: { errorText.contains($0.0) }) { return explanation }
        // The name in `SSL routines:OPENSSL_internal:NAME at FILE:LINE`, in lower case.
        guard
            let name = errorText.firstRange(of: "OPENSSL_internal:").map({
                errorText[$0.upperBound...].prefix { $0 != " " && $0 != "]" }
            })
        else {
            return "the connection was closed during the handshake"
        }
        return name.lowercased().split(separator: "_").joined(separator: " ")
    }
}
