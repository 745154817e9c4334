package import InterlockCore

/// The permissions of a Unix socket, such as `0660`. A client needs write permission to connect.
package struct SocketMode: Hashable, Sendable, CustomStringConvertible {
    /// The permission bits of the owner, the group and others, as in `chmod`.
    package let bits: UInt16

    /// 0600: access for the owner only.
    package static let ownerOnly = SocketMode(bits: 0o600)
    /// 0660: access for the owner and the group.
    package static let ownerAndGroup = SocketMode(bits: 0o660)

    package var description: String { "0" + String(bits, radix: 8) }

    private init(bits: UInt16) {
        self.bits = bits
    }

    /// Parses three octal digits with an optional leading zero.
    /// - Throws: `InvalidConfigurationValue` if the text is not a supported mode.
    package init(parsing text: String) throws(InvalidConfigurationValue) {
        let digits = text.utf8.count == 4 && text.hasPrefix("0") ? text.dropFirst() : text[...]
        guard digits.utf8.count == 3, digits.allSatisfy({ "0246".contains($0) }), digits.first == "6",
            let bits = UInt16(digits, radix: 8)
        else {
            throw InvalidConfigurationValue(
                "permissions such as 0600, 0660 or 0666: read and write only, and both for the owner")
        }
        self.init(bits: bits)
    }
}
