internal import Glibc

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
    }

    /// Where the socket is bound, under a mask that lets this user alone use it: `SocketMode.own`. Two sidecars that start at once do
    /// not take each other's.
    var temporaryPath: String { path + "." + String(getpid() % 46_656, radix: 36) }
    /// By so many bytes `temporaryPath` is longer than `path` at most.
    static let longestSuffix = 4

    /// Refuses to take the place of anything but a socket.
    func checkPlace() throws(SidecarError) {
        var status = stat()
        guard lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFSOCK else { return }
        throw SidecarError("listen.unix \(path): something is there that is no socket; move it away, or name another path")
    }

    /// Gives the bound socket its rights and its place.
    func publish() throws(SidecarError) {
        if let group {
            guard let number = Self.groupNumber(of: group) else {
                throw SidecarError("listen.unix_group \(group): there is no such group on this host")
            }
            guard lchown(temporaryPath, uid_t.max, number) == 0 else {
                let hint = errno == EPERM ? ": a process may give files only to groups that its user is a member of" : ""
                throw SidecarError("listen.unix_group \(group): \(String(cString: strerror(errno)))\(hint)")
            }
        }
        let mode = mode ?? (group == nil ? .own : .ofGroup)
        // The mask is the whole process', and may have been changed meanwhile. In a folder that others may write, a link may have
        // taken the socket's place: what it points at keeps its rights.
        guard fchmodat(AT_FDCWD, temporaryPath, mode_t(mode.bits), AT_SYMLINK_NOFOLLOW) == 0 else {
            throw SidecarError("listen.unix_mode \(mode): \(String(cString: strerror(errno)))")
        }
        guard rename(temporaryPath, path) == 0 else {
            throw SidecarError("listen.unix \(path): \(String(cString: strerror(errno)))")
        }
    }

    /// A group's number, of its name or its number; `nil`: there is none of this name.
    static func groupNumber(of group: String) -> gid_t? {
        if let number = ConfigurationText.wholeNumber(group) { return number < gid_t.max ? gid_t(number) : nil }
        var entry = Glibc.group()
        var found: UnsafeMutablePointer<Glibc.group>?
        // Long enough for groups of thousands of members.
        var buffer = [CChar](repeating: 0, count: 1 << 18)
        return getgrnam_r(group, &entry, &buffer, buffer.count, &found) == 0 && found != nil ? entry.gr_gid : nil
    }
}
