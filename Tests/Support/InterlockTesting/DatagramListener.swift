internal import Glibc

/// A Unix datagram socket that a test listens at, as a service manager would: what was sent to it, datagram by datagram.
package final class DatagramListener: Sendable {
    private let descriptor: Int32

    /// Binds it.
    /// - Parameters:
    ///   - name: a path at which nothing is, or a name in Linux' abstract namespace.
    /// - Throws: `ListenerError`.
    package init(at name: String, isAbstract: Bool = false) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw ListenerError(description: "no socket: \(String(cString: strerror(errno)))") }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = isAbstract ? [0] + Array(name.utf8) : Array(name.utf8) + [0]
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes.prefix($0.count)) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        let result = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        guard result == 0 else { throw ListenerError(description: "cannot bind \(name): \(String(cString: strerror(errno)))") }
    }

    deinit { close(descriptor) }

    /// The next datagram; `nil`: there is none yet.
    package func next() -> String? {
        var buffer = [UInt8](repeating: 0, count: 8_192)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count >= 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }

    /// Why a test cannot listen.
    package struct ListenerError: Error, CustomStringConvertible {
        package var description: String
    }
}
