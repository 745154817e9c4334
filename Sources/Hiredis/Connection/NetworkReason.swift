internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// Why a connection could not be made, or was lost, in words for people: the network's errors show how they are built.
package struct NetworkReason: CustomStringConvertible {
    package let description: String

    package init(_ error: any Error) {
        description = Self.sentence(error)
    }

    private static func sentence(_ error: any Error) -> String {
        switch error {
        case let error as NIOConnectionError:
            // Of several addresses the last one tried has had the most time.
            error.connectionErrors.last.map { sentence($0.error) } ?? "the name \(error.host) is not known"
        case let error as IOError:
            String(cString: strerror(error.errnoCode))
        case ChannelError.connectTimeout:
            "nobody answered in time"
        case NIOSSLError.handshakeFailed(let reason):
            "TLS could not be agreed on: \(reason)"
        default:
            "\(error)"
        }
    }
}
