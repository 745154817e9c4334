internal import Glibc
internal import SidecarSettings

/// The directory that contains the data of the embedded Redis. Only one sidecar may use it, because two servers would
/// corrupt the append-only file.
struct DataDirectory {
    let path: String
    /// The descriptor that holds the directory's lock until the process ends. Child processes do not inherit it.
    private let lockDescriptor: Int32

    /// The maximum length of a Unix socket's path, in bytes.
    private static let maximumSocketPathBytes = 107

    var socketPath: String { path + "/redis.sock" }
    var logPath: String { path + "/redis.log" }

    /// Creates the directory, accessible only to this user, if it does not exist, and locks it.
    /// - Throws: `SidecarError` if the directory cannot be used.
    init(path: String) throws(SidecarError) {
        self.path = path
        guard path.hasPrefix("/") else { throw SidecarError("the data directory must be an absolute path, got \(path)") }
        guard path.utf8.count + "/redis.sock".utf8.count <= Self.maximumSocketPathBytes else {
            throw SidecarError("the path of the data directory is too long for a Unix socket; choose a shorter one: \(path)")
        }
        try Self.create(path)
        try Self.checkIsPrivate(path)
        // Reject links, because another user may have created one before the directory was private.
        for file in [path + "/redis.log", path + "/redis.sock"] where Self.isLink(file) {
            throw SidecarError(
                "\(file) is a symbolic link, which Redis would follow; remove it, or choose another directory with --data-dir")
        }
        lockDescriptor = open(path + "/interlock.lock", O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard lockDescriptor >= 0 else { throw Self.failure("cannot write to", path) }
        guard flock(lockDescriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(lockDescriptor)
            throw SidecarError(
                "another sidecar uses the data directory \(path); share its Redis with --redis unix://\(path)/redis.sock, "
                    + "or choose another directory with --data-dir")
        }
    }

    /// Returns the default path: `$XDG_STATE_HOME/interlock`, or `~/.local/state/interlock` if that variable is not
    /// set.
    static func standardPath(environment: [String: String]) throws(SidecarError) -> String {
        if let state = environment["XDG_STATE_HOME"], state.hasPrefix("/") { return state + "/interlock" }
        guard let home = environment["HOME"], home.hasPrefix("/") else {
            throw SidecarError("neither XDG_STATE_HOME nor HOME is set; choose the data directory with --data-dir")
        }
        return home + "/.local/state/interlock"
    }

    /// Creates the directory and its parents if they do not exist.
    private static func create(_ path: String) throws(SidecarError) {
        var parent = ""
        for component in path.split(separator: "/") {
            parent += "/" + component
            guard mkdir(parent, 0o700) == 0 || errno == EEXIST else { throw failure("cannot create", parent) }
        }
    }

    /// Checks that only this user has access to the directory. The permissions of an existing directory are not
    /// changed.
    private static func checkIsPrivate(_ path: String) throws(SidecarError) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw failure("cannot read", path) }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw SidecarError("the data directory \(path) is not a directory; choose another with --data-dir")
        }
        guard status.st_uid == geteuid() else {
            throw SidecarError(
                "the data directory \(path) belongs to another user (uid \(status.st_uid)); change its owner, or choose another with "
                    + "--data-dir")
        }
        guard status.st_mode & 0o077 == 0 else {
            let mode = String(status.st_mode & 0o7777, radix: 8)
            throw SidecarError(
                "the data directory \(path) is accessible to others (mode \(mode)); run `chmod 700 \(path)`, or choose another with "
                    + "--data-dir")
        }
    }

    private static func isLink(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    }

    private static func failure(_ problem: String, _ path: String) -> SidecarError {
        SidecarError("\(problem) the data directory \(path): \(String(cString: strerror(errno))); choose another with --data-dir")
    }
}
