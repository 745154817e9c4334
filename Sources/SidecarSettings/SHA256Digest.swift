internal import CLibMD

/// The SHA-256 digest of a text. Comparing two digests takes constant time.
package struct SHA256Digest: Hashable, Sendable {
    package let bytes: [UInt8]

    package init(of text: String) {
        let text = Array(text.utf8)
        var context = SHA2_CTX()
        SHA256Init(&context)
        SHA256Update(&context, text, text.count)
        var bytes = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        SHA256Final(&bytes, &context)
        self.bytes = bytes
    }

    package static func == (left: SHA256Digest, right: SHA256Digest) -> Bool {
        zip(left.bytes, right.bytes).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
