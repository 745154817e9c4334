package import InterlockCore

/// Who may use a Unix socket: the file's permissions, `0660`. Connecting takes the right to write.
package struct SocketMode: Hashable, Sendable, CustomStringConvertible {
    /// The owner's, the group's and everybody's, as `chmod` has them.
    package let bits: UInt16

    /// 0600: this user.
    package static let own = SocketMode(bits: 0o600)
    /// 0660: the group as well.
    package static let ofGroup = SocketMode(bits: 0o660)

    package var description: String { "0" + String(bits, radix: 8) }

    private init(bits: UInt16) {
        self.bits = bits
    }

    /// Reads three octal digits, also behind a zero.
    /// - Throws: `ConfigurationExpectation`, which says what was expected instead.
    package init(parsing text: String) throws(ConfigurationExpectation) {
        let digits = text.utf8.count == 4 && text.hasPrefix("0") ? text.dropFirst() : text[...]
        guard digits.utf8.count == 3, digits.allSatisfy({ "0246".contains($0) }), digits.first == "6",
            let bits = UInt16(digits, radix: 8)
        else {
            throw ConfigurationExpectation(
                "permissions such as 0600, 0660 or 0666: reading and writing for the owner, and no others than these two")
        }
        self.init(bits: bits)
    }
}
