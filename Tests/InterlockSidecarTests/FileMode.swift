import Glibc

/// Who may do what with a file.
enum FileMode {
    /// The permission bits; `nil`: there is no such file.
    static func of(_ path: String) -> mode_t? {
        var information = stat()
        guard stat(path, &information) == 0 else { return nil }
        return information.st_mode & 0o777
    }
}
