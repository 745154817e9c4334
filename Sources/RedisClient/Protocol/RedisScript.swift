internal import CLibMD

/// A Lua script and the digest that Redis knows it by.
package struct RedisScript: Sendable {
    /// For messages: the file's name.
    package let name: String
    package let source: [UInt8]
    /// SHA-1 of the source in hexadecimal, as `EVALSHA` takes it.
    package let digest: String

    package init(name: String, source: [UInt8]) {
        self.name = name
        self.source = source
        // SHA-1 is what Redis names scripts by; nothing here rests on it being hard to break.
        var text = [CChar](repeating: 0, count: 2 * Int(SHA1_DIGEST_LENGTH) + 1)
        SHA1Data(source, source.count, &text)
        digest = String(decoding: text.dropLast().map(UInt8.init), as: UTF8.self)
    }
}
