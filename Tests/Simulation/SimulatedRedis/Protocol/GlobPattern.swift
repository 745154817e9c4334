/// A pattern of `PSUBSCRIBE`, `KEYS` and `SCAN`: `*`, `?`, `[a-c]`, `[^a]`, and `\` to escape.
struct GlobPattern: Hashable {
    let bytes: Bytes

    func matches(_ text: Bytes) -> Bool {
        Self.matches(bytes.storage[...], text.storage[...])
    }

    private static func matches(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
        var pattern = pattern
        var text = text
        while let symbol = pattern.first {
            switch symbol {
            case UInt8(ascii: "*"):
                let remainingPattern = pattern.drop { $0 == UInt8(ascii: "*") }
                guard !remainingPattern.isEmpty else { return true }
                return (text.startIndex...text.endIndex).contains { matches(remainingPattern, text[$0...]) }
            case UInt8(ascii: "?"):
                guard text.popFirst() != nil else { return false }
                pattern.removeFirst()
            case UInt8(ascii: "["):
                guard let byte = text.popFirst() else { return false }
                pattern.removeFirst()
                guard consumeClass(from: &pattern, contains: byte) else { return false }
            default:
                if symbol == UInt8(ascii: "\\"), pattern.count > 1 { pattern.removeFirst() }
                guard text.popFirst() == pattern.popFirst() else { return false }
            }
        }
        return text.isEmpty
    }

    /// Consumes the content of a bracket, and the closing bracket if the pattern has one. Returns whether the class
    /// contains `byte`.
    private static func consumeClass(from pattern: inout ArraySlice<UInt8>, contains byte: UInt8) -> Bool {
        let isNegated = pattern.first == UInt8(ascii: "^")
        if isNegated { pattern.removeFirst() }
        var isFound = false
        while let symbol = pattern.popFirst(), symbol != UInt8(ascii: "]") {
            if symbol == UInt8(ascii: "\\"), let escaped = pattern.popFirst() {
                isFound = isFound || escaped == byte
            } else if pattern.count >= 2, pattern.first == UInt8(ascii: "-") {
                pattern.removeFirst()
                let end = pattern.removeFirst()
                isFound = isFound || (min(symbol, end)...max(symbol, end)).contains(byte)
            } else {
                isFound = isFound || symbol == byte
            }
        }
        return isFound != isNegated
    }
}
