/// The credential of a lease: `<label>/<32 hex>`, the value of the lock's key.
///
/// Whoever knows the token can release the lease; so only the label is ever shown.
public enum OwnerToken {
    /// What a holder is called whose token is not of Interlock's form.
    public static let foreignLabel = "foreign"

    private static let randomLength = 32

    /// The token that `label` and 128 random bits make.
    public static func make(label: String, random: (UInt64, UInt64)) -> String {
        var token = label
        token.reserveCapacity(label.utf8.count + 1 + randomLength)
        token += "/"
        append(random.0, to: &token)
        append(random.1, to: &token)
        return token
    }

    /// The label of a token of Interlock's form, else `foreignLabel`. Nothing of a foreign token is ever shown: it may be
    /// a secret as a whole.
    public static func label(of token: String) -> String {
        let bytes = token.utf8
        guard bytes.count > randomLength + 1 else { return foreignLabel }
        let slash = bytes.index(bytes.endIndex, offsetBy: -(randomLength + 1))
        guard bytes[slash] == UInt8(ascii: "/") else { return foreignLabel }
        let isHexadecimal = bytes[bytes.index(after: slash)...].allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
        }
        return isHexadecimal ? String(token[..<slash]) : foreignLabel
    }

    private static func append(_ value: UInt64, to text: inout String) {
        text.append(contentsOf: hexadecimal(value))
    }

    /// 16 hexadecimal digits.
    public static func hexadecimal(_ value: UInt64) -> String {
        String(unsafeUninitializedCapacity: 16) { buffer in
            for index in 0..<16 {
                let digit = UInt8(truncatingIfNeeded: (value >> UInt64(60 - 4 * index)) & 0xF)
                buffer[index] = digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10
            }
            return 16
        }
    }
}
