internal import Glibc

/// The service manager that started this process, usually systemd: its notification socket and its watchdog. See
/// sd_notify(3) and sd_watchdog_enabled(3).
struct SystemdEnvironment: Sendable, Equatable {
    /// The address of the manager's datagram socket.
    enum Address: Sendable, Equatable {
        case path(String)
        /// A name in the abstract namespace of Linux, without the `@` that represents its leading NUL byte.
        case abstract(String)
    }

    var address: Address
    /// The time without a message after which the manager ends the process; `nil` if there is no watchdog.
    var watchdog: Duration?
}

extension SystemdEnvironment {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    /// - Parameter processID: the ID of this process. A watchdog for another process is ignored.
    /// - Returns: `nil` if no manager listens, or if its address is of an unknown kind.
    init?(environment: [String: String], processID: Int32) {
        guard let name = environment["NOTIFY_SOCKET"], name.utf8.count > 1, name.utf8.count <= Self.maximumNameBytes else {
            return nil
        }
        switch name.first {
        case "/": address = .path(name)
        case "@": address = .abstract(String(name.dropFirst()))
        default: return nil
        }
        let watchdogApplies = environment["WATCHDOG_PID"].map { $0 == "\(processID)" } ?? true
        if watchdogApplies, let microseconds = environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 0 {
            watchdog = .microseconds(microseconds)
        }
    }

    /// The maximum length of a name. It must fit into the 108 bytes of `sockaddr_un` with a NUL, which ends a path or
    /// starts an abstract name.
    private static let maximumNameBytes = 107
}

/// The socket through which the service manager is notified.
final class NotifySocket: Sendable {
    private let address: SystemdEnvironment.Address
    /// The socket's descriptor. It stays open so that a sidecar without free file descriptors can still report that it
    /// is alive.
    private let descriptor: Int32

    /// The time that a message waits while the manager's queue is full, before it is dropped.
    private static let sendTimeout = timeval(tv_sec: 1, tv_usec: 0)

    /// Returns `nil` if the system cannot create a socket.
    init?(to address: SystemdEnvironment.Address) {
        self.address = address
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var sendTimeout = Self.sendTimeout
        // Without a timeout, a manager that does not read its socket would block the sidecar.
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &sendTimeout, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Sends one datagram.
    /// - Parameter waits: whether to wait, for at most a second, while the manager's queue is full. Must be false on an
    ///   event loop.
    /// - Returns: the system's error message; `nil` if the datagram was sent.
    func send(_ text: String, waits: Bool) -> String? {
        var socketAddress = sockaddr_un()
        socketAddress.sun_family = sa_family_t(AF_UNIX)
        let (name, offset) =
            switch address {
            case .path(let path): (path, 0)
            case .abstract(let name): (name, 1)
            }
        withUnsafeMutableBytes(of: &socketAddress.sun_path) { bytes in
            // The name fits, because `SystemdEnvironment` rejects longer ones. An abstract name begins after its NUL.
            bytes[offset...].copyBytes(from: name.utf8.prefix(bytes.count - offset))
        }
        // A path ends at its NUL; an abstract name ends with the address.
        let length = MemoryLayout<sa_family_t>.size + offset + name.utf8.count + (1 - offset)
        let flags = Int32(MSG_NOSIGNAL) | (waits ? 0 : Int32(MSG_DONTWAIT))
        let sentByteCount = withUnsafePointer(to: socketAddress) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                Array(text.utf8).withUnsafeBytes {
                    sendto(descriptor, $0.baseAddress, $0.count, flags, address, socklen_t(length))
                }
            }
        }
        return sentByteCount >= 0 ? nil : String(cString: strerror(errno))
    }
}
