internal import Glibc
import InterlockCore
internal import NIOCore
internal import SidecarSettings

/// The file of a listening Unix socket. It is made under another name and for this user alone, given its rights, and only then put in
/// its place: nobody can reach it while it has others.
struct UnixSocketFile {
    let path: String
    /// `nil`: for this user alone, or with a group for its members too.
    let mode: SocketMode?
    /// By name or number; `nil`: this process' own.
    let group: String?

    init(path: String, _ listen: ListenSettings) {
        self.path = path
        mode = listen.unixMode
        group = listen.unixGroup
        temporaryPath = path + "." + String(UInt16.random(in: 0..<46_656), radix: 36)
    }

    /// Where the socket is bound. Two sidecars that start at once do not take each other's.
    private let temporaryPath: String

    /// Refuses to take the place of anything but a socket.
    func checkPlace() throws(SidecarError) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFSOCK else { return }
        throw SidecarError("listen.unix \(path): something is there that is no socket; move it away, or name another path")
    }

    /// Makes the socket, for this user alone, and binds it.
    /// - Returns: its descriptor, which the caller closes.
    /// - Throws: `IOError`.
    func bind() throws -> CInt {
        func checked(_ result: CInt, _ call: String) throws -> CInt {
            guard result >= 0 else { throw IOError(errnoCode: errno, reason: call) }
            return result
        }
        let descriptor = try checked(socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0), "socket")
        do {
            // The file gets the socket's rights, so that the mask, which is the whole process', can stay as it is.
            _ = try checked(fchmod(descriptor, mode_t(SocketMode.own.bits)), "fchmod")
            let address = try SocketAddress(unixDomainSocketPath: temporaryPath)
            _ = try checked(address.withSockAddr { Glibc.bind(descriptor, $0, socklen_t($1)) }, "bind")
        } catch {
            close(descriptor)
            throw error
        }
        return descriptor
    }

    /// The bound socket is not wanted.
    func remove() {
        unlink(temporaryPath)
    }

    /// Gives the bound socket its rights and its place.
    func publish() throws(SidecarError) {
        if let group {
            guard let number = UnixSocketSettings.groupNumber(of: group) else {
                throw SidecarError("listen.unix_group \(group): there is no such group on this host")
            }
            guard lchown(temporaryPath, uid_t.max, number) == 0 else {
                let hint = errno == EPERM ? ": a process may give files only to groups that its user is a member of" : ""
                throw SidecarError("listen.unix_group \(group): \(String(cString: strerror(errno)))\(hint)")
            }
        }
        let mode = mode ?? (group == nil ? .own : .ofGroup)
        guard setMode(mode_t(mode.bits)) else {
            throw SidecarError("listen.unix_mode \(mode): \(String(cString: strerror(errno)))")
        }
        guard rename(temporaryPath, path) == 0 else {
            throw SidecarError("listen.unix \(path): \(String(cString: strerror(errno)))")
        }
    }

    /// `O_PATH`, which Swift's C library leaves out.
    private static let pathOnly: CInt = 0o10_000_000

    /// In a folder that others may write, a link may have taken the socket's place: what it points at keeps its rights. Not by
    /// `fchmodat`, to which older C libraries and some containers have no way to say so.
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
