internal import CLibMD

/// A Lua script and the digest that identifies it in Redis.
package struct RedisScript: Sendable {
    /// The name of the script, for messages.
    package let name: String
    package let source: [UInt8]
    /// The SHA-1 of the source in hexadecimal, as `EVALSHA` takes it.
    package let digest: String

    package init(name: String, source: [UInt8]) {
        self.name = name
        self.source = source
        // Redis identifies scripts by SHA-1; no security depends on it.
        var hexadecimal = [CChar](repeating: 0, count: 2 * Int(SHA1_DIGEST_LENGTH) + 1)
        SHA1Data(source, source.count, &hexadecimal)
        digest = String(decoding: hexadecimal.dropLast().map(UInt8.init), as: UTF8.self)
    }
}
