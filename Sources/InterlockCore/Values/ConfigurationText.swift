/// Rules for single words, which several settings share.
package enum ConfigurationText {
    /// Parses a number of digits only, without sign, separator or exponent. Returns `nil` for other text, and for a
    /// number that does not fit.
    package static func wholeNumber(_ text: some StringProtocol) -> Int64? {
        let isDigits = !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return isDigits ? Int64(text) : nil
    }

    package static func isSpaceOrControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isWhitespace || scalar.properties.generalCategory == .control
    }

    /// Joins words: `a`, `a or b`, `a, b or c`.
    package static func alternatives(_ words: [String]) -> String {
        guard let last = words.last, words.count > 1 else { return words.first ?? "" }
        return words.dropLast().joined(separator: ", ") + " or " + last
    }

    /// Returns the candidate that `word` most likely misspells, with at most two letters inserted, omitted or replaced.
    package static func closest(to word: String, among candidates: [String]) -> String? {
        let maximumDistance = 2
        guard word.utf8.count <= 64 else { return nil }
        let letters = Array(word.lowercased().utf8)
        return
            candidates
            .filter { abs($0.utf8.count - letters.count) <= maximumDistance }
            .map { (word: $0, distance: distance(letters, Array($0.utf8))) }
            .filter { $0.distance <= maximumDistance && $0.distance < $0.word.utf8.count }
            .min { $0.distance < $1.distance }?
            .word
    }

    /// The words of other software, with the words of Interlock's settings.
    private static let synonyms = [
        "token_bucket": "gcra", "leaky_bucket": "gcra", "sliding_window": "sliding", "fixed_window": "fixed",
        "fail_open": "allow", "fail_closed": "deny",
    ]

    /// Returns the word that `text` abbreviates or misspells, or that other software calls by this name.
    fileprivate static func intended(by text: String, among words: [String]) -> String? {
        let text = text.lowercased().replacing("-", with: "_")
        if let word = synonyms[text], words.contains(word) { return word }
        // Do not correct short words: two changed letters turn one into another.
        return words.first { text.utf8.count > 2 && $0.hasPrefix(text) }
            ?? closest(to: text, among: words.filter { $0.utf8.count > 3 })
    }

    /// Returns the Levenshtein distance. O(n·m).
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var previous = Array(0...right.count)
        for (row, byte) in left.enumerated() {
            var current = [row + 1]
            for (column, other) in right.enumerated() {
                let replaced = previous[column] + (byte == other ? 0 : 1)
                current.append(min(replaced, previous[column + 1] + 1, current[column] + 1))
            }
            previous = current
        }
        return previous[right.count]
    }
}

extension RawRepresentable where RawValue == String, Self: CaseIterable {
    /// Parses the raw value of one of the cases.
    package init(parsing text: String) throws(InvalidConfigurationValue) {
        guard let value = Self(rawValue: text) else {
            let words = Self.allCases.map(\.rawValue)
            throw InvalidConfigurationValue(
                ConfigurationText.alternatives(words), suggestion: ConfigurationText.intended(by: text, among: words))
        }
        self = value
    }
}
