/// The credential of a lease: `<label>/<32 hex>`, the value of the lock's key.
///
/// Whoever knows the token can release the lease; so only the label is ever shown.
package enum OwnerToken {
    /// What a holder is called whose token is not of Interlock's form.
    package static let foreignLabel = "foreign"

    private static let randomLength = 32
    /// What follows a sidecar's ID in its tickets: a label alone, which may be a host's name, could be taken for an ID.
    private static let ticketMark = "/ticket"

    /// The ticket `<sidecar ID>/ticket/<32 hex>`, which stands in the lock's key while its turn is offered.
    package static func makeTicket(sidecar: String, random: (UInt64, UInt64)) -> String {
        make(label: sidecar + ticketMark, random: random)
    }

    /// Whether `text`, a token or a label, begins as tickets do; also in capitals, which scripts take for one as well.
    package static func isTicket(_ text: some StringProtocol) -> Bool {
        let bytes = text.utf8
        return bytes.prefix(12).count { isHexadecimal($0 | 0x20) } == 12 && bytes.dropFirst(12).starts(with: ticketMark.utf8)
    }

    /// Whose ticket it is: the ID of a sidecar.
    package static func sidecar(ofTicket ticket: String) -> String {
        String(ticket.prefix { $0 != "/" })
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    /// The token that `label` and 128 random bits make.
    package static func make(label: String, random: (UInt64, UInt64)) -> String {
        var label = label
        return label.withUTF8 { label in
            String(unsafeUninitializedCapacity: label.count + 1 + randomLength) { buffer in
                for index in label.indices { buffer[index] = label[index] }
                buffer[label.count] = UInt8(ascii: "/")
                write(random.0, to: buffer, at: label.count + 1)
                write(random.1, to: buffer, at: label.count + 1 + randomLength / 2)
                return label.count + 1 + randomLength
            }
        }
    }

    /// The label of a token of Interlock's form, else `foreignLabel`. Nothing of a foreign token is ever shown: it may be
    /// a secret as a whole.
    package static func label(of token: String) -> String {
        let bytes = token.utf8
        guard bytes.count > randomLength + 1 else { return foreignLabel }
        let slash = bytes.index(bytes.endIndex, offsetBy: -(randomLength + 1))
        guard bytes[slash] == UInt8(ascii: "/") else { return foreignLabel }
        return bytes[bytes.index(after: slash)...].allSatisfy(isHexadecimal) ? String(token[..<slash]) : foreignLabel
    }

    /// 16 hexadecimal digits.
    package static func hexadecimal(_ value: UInt64) -> String {
        String(unsafeUninitializedCapacity: randomLength / 2) { buffer in
            write(value, to: buffer, at: 0)
            return randomLength / 2
        }
    }

    private static func write(_ value: UInt64, to buffer: UnsafeMutableBufferPointer<UInt8>, at start: Int) {
        for index in 0..<(randomLength / 2) {
            let digit = UInt8(truncatingIfNeeded: (value >> UInt64(60 - 4 * index)) & 0xF)
            buffer[start + index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
        }
    }
}
