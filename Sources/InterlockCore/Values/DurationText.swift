/// The text of durations: `500ms`, `2s`, `1.5s`, `1m`, `1h30m`, `1d`. Whole milliseconds, never negative.
package enum DurationText {
    /// The units from longest to shortest, the order in which `shortest` tries them.
    private static let units: [(symbol: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]
    private static let wanted = "a duration such as 500ms, 2s, 1m, 1h or 1d"

    /// Parses a duration. Each unit may occur once, from longest to shortest; only the last may have a fraction.
    /// - Throws: `InvalidConfigurationValue`, which describes the text expected instead.
    package static func parse(_ text: some StringProtocol) throws(InvalidConfigurationValue) -> Duration {
        var remaining = text[...]
        var totalMilliseconds: Int64 = 0
        var nextUnit = units.startIndex
        repeat {
            let number = remaining.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            let symbol = remaining[number.endIndex...].prefix { !($0.isASCII && $0.isNumber) }
            remaining = remaining[symbol.endIndex...]
            guard let index = units[nextUnit...].firstIndex(where: { $0.symbol == symbol }) else {
                throw unreadable(text)
            }
            nextUnit = index + 1
            let isLast = remaining.isEmpty
            let part = try milliseconds(number, of: units[index].milliseconds, mayHaveFraction: isLast, in: text)
            let (sum, overflow) = totalMilliseconds.addingReportingOverflow(part)
            guard !overflow else { throw InvalidConfigurationValue("a shorter duration") }
            totalMilliseconds = sum
        } while !remaining.isEmpty
        return .milliseconds(totalMilliseconds)
    }

    /// Returns the milliseconds of a number of units of `unit` milliseconds each.
    private static func milliseconds(
        _ number: some StringProtocol, of unit: Int64, mayHaveFraction: Bool, in text: some StringProtocol
    ) throws(InvalidConfigurationValue) -> Int64 {
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= (mayHaveFraction ? 2 : 1), parts.allSatisfy({ !$0.isEmpty }) else {
            throw unreadable(text)
        }
        let fraction = parts.count == 2 ? String(parts[1]) : ""
        // No unit has more milliseconds than nine fractional digits can express.
        guard fraction.utf8.count <= 9, let digits = ConfigurationText.wholeNumber(parts[0] + fraction) else {
            throw unreadable(text)
        }
        let scale = (0..<fraction.utf8.count).reduce(Int64(1)) { scale, _ in scale * 10 }
        let (scaled, overflow) = digits.multipliedReportingOverflow(by: unit)
        guard !overflow else { throw InvalidConfigurationValue("a shorter duration") }
        guard scaled % scale == 0 else { throw InvalidConfigurationValue("a duration of whole milliseconds") }
        return scaled / scale
    }

    /// Returns the error for unreadable text. For a number without a unit, it suggests seconds, and for a large number
    /// also milliseconds.
    private static func unreadable(_ text: some StringProtocol) -> InvalidConfigurationValue {
        guard let number = ConfigurationText.wholeNumber(text) else { return InvalidConfigurationValue(wanted) }
        return InvalidConfigurationValue(wanted, suggestion: number < 100 ? "\(number)s" : "\(number)s or \(number)ms")
    }

    /// Parses a range such as `5s..60s`. A single duration is both the lower and the upper bound.
    package static func parseRange(_ text: String) throws(InvalidConfigurationValue) -> ClosedRange<Duration> {
        guard let dots = text.firstRange(of: "..") else {
            let single = try parse(text)
            return single...single
        }
        let lower = try parse(text[..<dots.lowerBound])
        let upper = try parse(text[dots.upperBound...])
        guard lower <= upper else { throw InvalidConfigurationValue("a range that starts with the shorter duration") }
        return lower...upper
    }

    /// Returns the spelling with the longest unit that needs no fraction: `1m` for 60 seconds, `90s` for ninety.
    package static func shortest(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMilliseconds
        let unit = units.first { milliseconds != 0 && milliseconds % $0.milliseconds == 0 }
        guard let unit else { return "\(milliseconds)ms" }
        return "\(milliseconds / unit.milliseconds)\(unit.symbol)"
    }
}
