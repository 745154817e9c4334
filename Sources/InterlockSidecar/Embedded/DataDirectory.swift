internal import Glibc
internal import SidecarSettings

/// The folder that contains the data of the embedded Redis. Only one sidecar may use it, because two servers would
/// destroy the append-only file.
struct DataDirectory {
    let path: String
    /// The descriptor that holds the lock while the process lives. Child processes do not inherit it.
    private let lockDescriptor: Int32

    /// The longest path of a Unix socket, in bytes.
    private static let longestSocketPath = 107

    var socketPath: String { path + "/redis.sock" }
    var logPath: String { path + "/redis.log" }

    /// Creates the folder for this user only, if it does not exist, and locks it.
    /// - Throws: `SidecarError` that states the remedy.
    init(path: String) throws(SidecarError) {
        self.path = path
        guard path.hasPrefix("/") else { throw SidecarError("the data directory must be an absolute path, got \(path)") }
        guard path.utf8.count + "/redis.sock".utf8.count <= Self.longestSocketPath else {
            throw SidecarError("the path of the data directory is too long for a Unix socket; choose a shorter one: \(path)")
        }
        try Self.create(path)
        try Self.checkIsPrivate(path)
        // A link could have been planted before the folder was private, so links are rejected.
        for file in [path + "/redis.log", path + "/redis.sock"] where Self.isLink(file) {
            throw SidecarError(
                "\(file) is a link, which Redis would follow: remove it, or choose another folder with --data-dir")
        }
        lockDescriptor = open(path + "/interlock.lock", O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lockDescriptor >= 0 else { throw Self.failure("cannot write to", path) }
        guard flock(lockDescriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(lockDescriptor)
            throw SidecarError(
                "another sidecar uses the data directory \(path); share its Redis with --redis unix://\(path)/redis.sock, "
                    + "or choose a different folder with --data-dir")
        }
    }

    /// Returns the default path: `$XDG_STATE_HOME/interlock`, or `~/.local/state/interlock` if that variable is not
    /// set.
    static func standardPath(environment: [String: String]) throws(SidecarError) -> String {
        if let state = environment["XDG_STATE_HOME"], state.hasPrefix("/") { return state + "/interlock" }
        guard let home = environment["HOME"], home.hasPrefix("/") else {
            throw SidecarError("neither XDG_STATE_HOME nor HOME is set: choose the data directory with --data-dir")
        }
        return home + "/.local/state/interlock"
    }

    private static func create(_ path: String) throws(SidecarError) {
        var parent = ""
        for part in path.split(separator: "/") {
            parent += "/" + part
            guard mkdir(parent, 0o700) == 0 || errno == EEXIST else { throw failure("cannot create", parent) }
        }
    }

    /// Checks that only this user has access to the folder. The permissions of an existing folder are not changed.
    private static func checkIsPrivate(_ path: String) throws(SidecarError) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure("cannot read", path) }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw SidecarError("the data directory \(path) is not a directory; choose another with --data-dir")
        }
        guard status.st_uid == geteuid() else {
            throw SidecarError(
                "the data directory \(path) belongs to another user (uid \(status.st_uid)): change its owner, or choose another with "
                    + "--data-dir")
        }
        guard status.st_mode & 0o077 == 0 else {
            let mode = String(status.st_mode & 0o7777, radix: 8)
            throw SidecarError(
                "the data directory \(path) is accessible to others (mode \(mode)): run `chmod 700 \(path)`, or choose another with "
                    + "--data-dir")
        }
    }

    private static func isLink(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    private static func failure(_ what: String, _ path: String) -> SidecarError {
        SidecarError("\(what) the data directory \(path): \(String(cString: strerror(errno))); choose another with --data-dir")
    }
}
