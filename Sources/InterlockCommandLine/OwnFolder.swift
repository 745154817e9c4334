import Glibc

/// The folder that this program was started from.
package enum OwnFolder {
    /// Another program of Interlock's there; `nil`: there is no such file that can be executed.
    package static func program(named name: String) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0, count < buffer.count else { return nil }
        let own = buffer[..<count].map { UInt8(bitPattern: $0) }
        guard let slash = own.lastIndex(of: UInt8(ascii: "/")) else { return nil }
        let path = String(decoding: own[...slash], as: UTF8.self) + name
        return access(path, X_OK) == 0 ? path : nil
    }
}
