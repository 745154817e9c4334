internal import Glibc
import InterlockCore
internal import NIOCore
internal import SidecarSettings

/// The file of a listening Unix socket. The file is created under a temporary name with access for this user alone,
/// gets its permissions, and only then moves to its path, so it is never reachable with other permissions.
struct UnixSocketFile {
    let path: String
    /// The permissions; `nil` for access by this user, and by the group's members if there is a group.
    let mode: SocketMode?
    /// The group's name or number; `nil` for the group of the process.
    let group: String?

    init(path: String, _ listen: ListenSettings) {
        self.path = path
        mode = listen.unixMode
        group = listen.unixGroup
        temporaryPath = path + "." + String(UInt16.random(in: 0..<46_656), radix: 36)
    }

    /// The path at which the socket is bound. The random suffix separates sidecars that start at the same time.
    private let temporaryPath: String

    /// Checks that the path is unused, or is that of a socket, which may be replaced.
    func checkPath() throws(SidecarError) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFSOCK else { return }
        throw SidecarError("listen.unix \(path): the file exists and is not a socket; move it, or use another path")
    }

    /// Creates the socket with access for this user alone, and binds it to the temporary path.
    /// - Returns: the descriptor, which the caller closes.
    /// - Throws: `IOError` if a system call fails.
    func bind() throws -> CInt {
        func requireSuccess(_ returned: CInt, _ call: String) throws -> CInt {
            guard returned >= 0 else { throw IOError(errnoCode: errno, reason: call) }
            return returned
        }
        let descriptor = try requireSuccess(
            socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0), "socket")
        do {
            // The file inherits the socket's permissions, so the umask, which is process-wide, need not change.
            _ = try requireSuccess(fchmod(descriptor, mode_t(SocketMode.ownerOnly.bits)), "fchmod")
            let address = try SocketAddress(unixDomainSocketPath: temporaryPath)
            _ = try requireSuccess(address.withSockAddr { Glibc.bind(descriptor, $0, socklen_t($1)) }, "bind")
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// Removes a bound socket that will not be published.
    func remove() {
        unlink(temporaryPath)
    }

    /// Sets the permissions of the bound socket, and moves it to its path.
    func publish() throws(SidecarError) {
        if let group {
            guard let groupID = UnixSocketSettings.groupID(of: group) else {
                throw SidecarError("listen.unix_group \(group): no such group on this host")
            }
            guard lchown(temporaryPath, uid_t.max, groupID) == 0 else {
                let hint = errno == EPERM ? ": a process can assign files only to groups of its user" : ""
                throw SidecarError("listen.unix_group \(group): \(String(cString: strerror(errno)))\(hint)")
            }
        }
        let mode = mode ?? (group == nil ? .ownerOnly : .ownerAndGroup)
        guard setMode(mode_t(mode.bits)) else {
            throw SidecarError("listen.unix_mode \(mode): \(String(cString: strerror(errno)))")
        }
        guard rename(temporaryPath, path) == 0 else {
            throw SidecarError("listen.unix \(path): \(String(cString: strerror(errno)))")
        }
    }

    /// The `O_PATH` flag, which Swift's C library omits.
    private static let pathOnly: CInt = 0o10_000_000

    /// Sets the mode of the socket itself. In a directory that others can write to, a link may have replaced the
    /// socket, and the link's target must keep its permissions. `fchmodat` cannot do this in older C libraries and in
    /// some containers.
    /// - Returns: `false` if a system call failed, with the reason in `errno`.
    private func setMode(_ mode: mode_t) -> Bool {
        let descriptor = open(temporaryPath, Self.pathOnly | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return false }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            errno = ENOTSOCK
            return false
        }
        return status.st_mode & 0o7777 == mode || chmod("/proc/self/fd/\(descriptor)", mode) == 0
    }
}
