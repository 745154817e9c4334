internal import Glibc

/// The folder that the embedded Redis keeps its data in. One sidecar at a time: two servers on one append-only file would
/// destroy it.
struct DataFolder {
    let path: String
    /// Holds the lock for as long as the process lives; children do not inherit it.
    private let lockDescriptor: Int32

    /// The longest path that a Unix socket's address takes.
    private static let longestSocketPath = 107

    var socketPath: String { path + "/redis.sock" }
    var logPath: String { path + "/redis.log" }

    /// Creates the folder, if need be, for this user alone, and locks it.
    /// - Throws: `SidecarError`, which says what to do.
    init(path: String) throws(SidecarError) {
        self.path = path
        guard path.hasPrefix("/") else { throw SidecarError("the data folder must be given by its whole path, not \(path)") }
        guard path.utf8.count + "/redis.sock".utf8.count <= Self.longestSocketPath else {
            throw SidecarError("the data folder's path is too long for a Unix socket in it; choose a shorter one: \(path)")
        }
        try Self.create(path)
        guard chmod(path, 0o700) == 0 else { throw Self.failure("cannot make private", path) }
        lockDescriptor = open(path + "/interlock.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard lockDescriptor >= 0 else { throw Self.failure("cannot write to", path) }
        guard flock(lockDescriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(lockDescriptor)
            throw SidecarError(
                "another sidecar uses the data folder \(path); share its Redis with --redis unix://\(path)/redis.sock, "
                    + "or give this one a folder of its own with --data-dir")
        }
    }

    /// `$XDG_STATE_HOME/interlock`, by default `~/.local/state/interlock`.
    static func standardPath(environment: [String: String]) throws(SidecarError) -> String {
        if let state = environment["XDG_STATE_HOME"], state.hasPrefix("/") { return state + "/interlock" }
        guard let home = environment["HOME"], home.hasPrefix("/") else {
            throw SidecarError("neither XDG_STATE_HOME nor HOME is set: say where the data folder is with --data-dir")
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

    private static func failure(_ what: String, _ path: String) -> SidecarError {
        SidecarError("\(what) the data folder \(path): \(String(cString: strerror(errno))); choose another with --data-dir")
    }
}
