/// Guesses the value that a user intended, from spellings that other software accepts.
enum ConfigurationSuggestion {
    private static let units: [(symbol: String, names: Set<String>)] = [
        ("ms", ["msec", "millis", "millisecond"]), ("s", ["sec", "second"]), ("m", ["min", "minute"]), ("h", ["hr", "hour"]),
        ("d", ["day"]),
    ]

    /// Returns `5s` for `5 seconds`, `1m` for `minute`, and `5s..60s` for `5s-60s`, if `isAccepted` accepts the result.
    static func duration(for text: String, isAccepted: (String) -> Bool) -> String? {
        guard text.utf8.count <= 64 else { return nil }
        let text = text.lowercased().replacing(" ", with: "")
        let number = text.prefix { ("0"..."9").contains($0) || $0 == "." }
        let unitName = text.dropFirst(number.count)
        let singular = String(unitName.hasSuffix("s") ? unitName.dropLast() : unitName)
        let unit = units.first { $0.symbol == unitName || $0.names.contains(singular) }
        let candidates: [String?] = [
            text, text.replacing("-", with: ".."), unit.map { "\(number.isEmpty ? "1" : String(number))\($0.symbol)" },
        ]
        return candidates.compactMap(\.self).first(where: isAccepted)
    }

    /// Returns `50%` for `50` and for `0.5`.
    static func percentage(for text: String, in range: ClosedRange<Double>) -> String? {
        let isDecimal = text.utf8.count <= 8 && text.allSatisfy { $0 == "." || ("0"..."9").contains($0) }
        guard isDecimal, let number = Double(text) else { return nil }
        let percent = number < 1 ? (number * 100 * 1e6).rounded() / 1e6 : number
        // 1 may be either 1% or 100%.
        guard number != 1, range.contains(percent) else { return nil }
        return (percent == percent.rounded() ? "\(Int(percent))" : "\(percent)") + "%"
    }

    /// Returns `true` or `false` for a synonym such as `yes` or `off`.
    static func flag(for text: String) -> String? {
        switch text.lowercased() {
        case "true", "yes", "y", "on", "1": "true"
        case "false", "no", "n", "off", "0": "false"
        default: nil
        }
    }

    /// Returns `500..599` for `5xx`.
    static func statuses(for text: String) -> String? {
        guard text.utf8.count == 3, text.lowercased().hasSuffix("xx"), let digit = text.first, ("1"..."5").contains(digit)
        else { return nil }
        return "\(digit)00..\(digit)99"
    }
}
