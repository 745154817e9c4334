import Glibc

/// The permissions of a file.
enum FileMode {
    /// Returns the permission bits; `nil` if the file does not exist.
    static func of(_ path: String) -> mode_t? {
        var information = stat()
        guard stat(path, &information) == 0 else { return nil }
        return information.st_mode & 0o777
    }
}
