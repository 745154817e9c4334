import Glibc

/// The directory that contains the executable of this process.
package enum ExecutableDirectory {
    /// Returns the path of another program in this directory; `nil` if there is no such executable file.
    package static func program(named name: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0, count < buffer.count else { return nil }
        let ownPath = buffer[..<count].map { UInt8(bitPattern: $0) }
        guard let slash = ownPath.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        let path = String(decoding: ownPath[...slash], as: UTF8.self) + name
        return access(path, X_OK) == 0 ? path : nil
    }
}
