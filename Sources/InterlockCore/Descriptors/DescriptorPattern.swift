/// A pattern for the values that a rule matches. Each `*` matches any number of characters, including zero.
package struct DescriptorPattern: Hashable, Sendable {
    package let text: String
    /// The texts before, between and after the stars; a single part if there is no star.
    private let parts: [[UInt8]]

    package init(_ text: String) {
        self.text = text
        parts = text.utf8.split(separator: UInt8(ascii: "*"), omittingEmptySubsequences: false).map(Array.init)
    }

    package var hasStars: Bool { parts.count > 1 }

    /// Returns whether the pattern matches `value`. O(length of the value × parts).
    package func matches(_ value: String) -> Bool {
        var remaining = Substring(value).utf8
        guard hasStars else { return remaining.elementsEqual(parts[0]) }
        guard remaining.starts(with: parts[0]) else { return false }
        remaining = remaining.dropFirst(parts[0].count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let end = Self.firstEnd(of: part, in: remaining) else { return false }
            remaining = remaining[end...]
        }
        let last = parts[parts.count - 1]
        return remaining.count >= last.count && remaining.suffix(last.count).elementsEqual(last)
    }

    /// Returns the index after the first `part` in `text`; `nil` if `text` does not contain it.
    private static func firstEnd(of part: [UInt8], in text: Substring.UTF8View) -> Substring.Index? {
        var start = text.startIndex
        while start < text.endIndex {
            if text[start...].starts(with: part) { return text.index(start, offsetBy: part.count) }
            start = text.index(after: start)
        }
        return nil
    }
}

extension DescriptorPattern: DigestedSetting {
    package var digestedParts: Parts { [("text", text), ("parts", parts)] }
}
