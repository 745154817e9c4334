internal import Glibc

/// A Unix datagram socket that receives a test's datagrams, as a service manager's socket would.
package final class DatagramListener: Sendable {
    private let descriptor: Int32

    /// Binds the socket.
    /// - Parameters:
    ///   - name: an unused path, or a name in Linux's abstract namespace.
    ///   - isAbstract: whether `name` is in the abstract namespace.
    /// - Throws: `ListenerError` if the socket cannot be created or bound.
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

    /// Returns the next datagram; `nil` if none has arrived.
    package func next() -> String? {
        var buffer = [UInt8](repeating: 0, count: 8_192)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        return count >= 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
    }

    /// An error for a socket that cannot be created or bound.
    package struct ListenerError: Error, CustomStringConvertible {
        package var description: String
    }
}
