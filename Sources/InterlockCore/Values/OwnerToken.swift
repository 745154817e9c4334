/// The credential of a lease, and the value of the lock's key: `<label>/<32 hexadecimal digits>`.
///
/// Anyone who knows the token can release the lease, so outputs contain only the label.
package enum OwnerToken {
    /// The label of a holder whose token does not have Interlock's form.
    package static let foreignLabel = "foreign"

    private static let randomLength = 32
    /// The text that follows the sidecar's ID in a ticket. Without it, a label such as a host's name could be mistaken
    /// for an ID.
    private static let ticketMark = "/ticket"

    /// Returns a ticket, `<sidecar ID>/ticket/<32 hexadecimal digits>`: the value of the lock's key while the lock is
    /// on offer to this sidecar.
    package static func makeTicket(sidecar: String, random: (UInt64, UInt64)) -> String {
        make(label: sidecar + ticketMark, random: random)
    }

    /// Returns whether `text`, a token or a label, begins like a ticket. Capital letters count too, because scripts
    /// accept them.
    package static func isTicket(_ text: some StringProtocol) -> Bool {
        let bytes = text.utf8
        return bytes.prefix(12).count { isHexadecimal($0 | 0x20) } == 12
            && bytes.dropFirst(12).starts(with: ticketMark.utf8)
    }

    /// Returns the ID of the sidecar that a ticket belongs to.
    package static func sidecar(ofTicket ticket: String) -> String {
        String(ticket.prefix { $0 != "/" })
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    /// Returns a token made of `label` and 128 random bits.
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

    /// Returns the label of a token of Interlock's form, and `foreignLabel` for any other token, because all of that
    /// token may be secret.
    package static func label(of token: String) -> String {
        let bytes = token.utf8
        guard bytes.count > randomLength + 1 else { return foreignLabel }
        let slash = bytes.index(bytes.endIndex, offsetBy: -(randomLength + 1))
        guard bytes[slash] == UInt8(ascii: "/") else { return foreignLabel }
        return bytes[bytes.index(after: slash)...].allSatisfy(isHexadecimal) ? String(token[..<slash]) : foreignLabel
    }

    /// Returns a number as 16 hexadecimal digits.
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
