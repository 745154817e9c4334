internal import FoundationEssentials
internal import Glibc

/// A new directory that only this user can access.
package struct TemporaryFolder: Sendable {
    package let path: String

    /// Creates the directory in `/tmp`, ignoring `TMPDIR`, because the path of a Unix socket is limited to 107 bytes.
    package init() throws {
        var template = Array("/tmp/interlock-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw RedisServerError(reason: "cannot create a directory in /tmp: \(String(cString: strerror(errno)))", log: "")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Deletes a server's saved data, so that it starts empty.
    func removeData() {
        for name in ["dump.rdb", "appendonlydir", "appendonly.aof"] {
            // Ignore the error, because most of these do not exist.
            try? FileManager.default.removeItem(atPath: "\(path)/\(name)")
        }
    }

    /// Deletes the folder and its contents.
    package func remove() {
        // Ignore the error, because a leftover directory in /tmp must not fail a finished test.
        try? FileManager.default.removeItem(atPath: path)
    }
}
