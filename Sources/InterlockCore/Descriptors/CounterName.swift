/// The part of a counter's key that encodes a descriptor's entries: `message_type=marketing,to_number=2061111111`.
/// Ambiguous characters are percent-encoded as in a URL, so no two descriptors have the same text.
package struct CounterName: Sendable {
    /// The maximum length in bytes. A longer name is cut, and ends in a digest of the full name.
    package static let maximumBytes = 400

    private var bytes: [UInt8] = []

    package init() {}

    /// Appends an entry.
    package mutating func append(key: String, value: String) {
        if !bytes.isEmpty { bytes.append(UInt8(ascii: ",")) }
        append(key, isKey: true)
        bytes.append(UInt8(ascii: "="))
        append(value, isKey: false)
    }

    private mutating func append(_ text: String, isKey: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "=") where !isKey: bytes.append(byte)
            case UInt8(ascii: "%"), UInt8(ascii: ","), UInt8(ascii: "="), UInt8(ascii: "~"), 0...0x20, 0x7F:
                bytes.append(UInt8(ascii: "%"))
                bytes.append(Self.digit(byte >> 4))
                bytes.append(Self.digit(byte & 15))
            default: bytes.append(byte)
            }
        }
    }

    private static func digit(_ number: UInt8) -> UInt8 {
        number < 10 ? UInt8(ascii: "0") + number : UInt8(ascii: "A") + number - 10
    }

    /// The name, at most `maximumBytes` long.
    package var text: String {
        guard bytes.count > Self.maximumBytes else { return String(decoding: bytes, as: UTF8.self) }
        let fullName = String(decoding: bytes, as: UTF8.self)
        return String(decoding: bytes.prefix(Self.maximumBytes - 20), as: UTF8.self) + "~" + TextDigest.of(fullName)
    }
}
