internal import Glibc

/// The service manager that started this process, systemd as a rule: where it listens, and how often it must hear that the
/// process lives. See sd_notify(3) and sd_watchdog_enabled(3).
struct ServiceManager: Sendable, Equatable {
    /// The datagram socket that it listens at.
    enum Address: Sendable, Equatable {
        case path(String)
        /// A name in Linux' abstract namespace, without the `@` that stands for its leading NUL byte.
        case abstract(String)
    }

    var address: Address
    /// The longest that it may hear nothing before it ends the process; `nil`: it does not watch.
    var watchdog: Duration?
}

extension ServiceManager {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    /// - Parameter processID: the process that asks. A watchdog that is meant for another process is not its own.
    /// - Returns: `nil` when no manager listens, or at an address of a kind that this program does not know.
    init?(environment: [String: String], processID: Int32) {
        guard let name = environment["NOTIFY_SOCKET"], name.utf8.count > 1, name.utf8.count <= Self.longestName else {
            return nil
        }
        switch name.first {
        case "/": address = .path(name)
        case "@": address = .abstract(String(name.dropFirst()))
        default: return nil
        }
        let isMeant = environment["WATCHDOG_PID"].map { $0 == "\(processID)" } ?? true
        if isMeant, let microseconds = environment["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 0 {
            watchdog = .microseconds(microseconds)
        }
    }

    /// `sockaddr_un` has 108 bytes; a path needs one for the NUL at its end, an abstract name for the one at its start.
    private static let longestName = 107
}

/// The end of a datagram socket that a service manager is told things through.
final class NotifySocket: Sendable {
    private let address: ServiceManager.Address
    /// Kept open: a sidecar that has run out of file descriptors can still say that it lives.
    private let descriptor: Int32

    /// For how long the manager may leave its queue full before a state is given up.
    private static let patience = timeval(tv_sec: 1, tv_usec: 0)

    /// `nil`: the system gives no socket.
    init?(to address: ServiceManager.Address) {
        self.address = address
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var patience = Self.patience
        // Without it, a manager that does not read would be waited for; systemd reads.
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    /// Sends one datagram.
    /// - Parameter waits: whether to wait, for a second at most, while the manager's queue is full. Never on an event loop.
    /// - Returns: the system's word for what went wrong; `nil`: it was sent.
    func send(_ text: String, waits: Bool) -> String? {
        var target = sockaddr_un()
        target.sun_family = sa_family_t(AF_UNIX)
        let (name, offset) =
            switch address {
            case .path(let path): (path, 0)
            case .abstract(let name): (name, 1)
            }
        withUnsafeMutableBytes(of: &target.sun_path) { bytes in
            // As many bytes as the name has, after the abstract name's NUL: `ServiceManager` takes no longer one.
            bytes[offset...].copyBytes(from: name.utf8.prefix(bytes.count - offset))
        }
        // A path ends at its NUL, an abstract name where the address does.
        let length = MemoryLayout<sa_family_t>.size + offset + name.utf8.count + (1 - offset)
        let flags = Int32(MSG_NOSIGNAL) | (waits ? 0 : Int32(MSG_DONTWAIT))
        let sent = withUnsafePointer(to: target) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                Array(text.utf8).withUnsafeBytes {
                    sendto(descriptor, $0.baseAddress, $0.count, flags, address, socklen_t(length))
                }
            }
        }
        return sent >= 0 ? nil : String(cString: strerror(errno))
    }
}
