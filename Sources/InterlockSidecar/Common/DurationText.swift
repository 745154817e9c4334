import InterlockCore

/// Durations as people write them: `500ms`, `2s`, `1.5s`, `1m`, `1h`, `1d`. Whole milliseconds, never negative.
package enum DurationText {
    /// Longest first: the order in which a duration's shortest spelling is looked for.
    private static let units: [(symbol: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]
    private static let wanted = "a duration such as 500ms, 2s, 1m, 1h or 1d"

    /// - Throws: `ConfigurationExpectation`, which says what was expected instead.
    package static func parse(_ text: some StringProtocol) throws(ConfigurationExpectation) -> Duration {
        let number = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let symbol = text[number.endIndex...]
        guard let unit = units.first(where: { $0.symbol == symbol }) else { throw ConfigurationExpectation(wanted) }
        let parts = number.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ !$0.isEmpty }) else { throw ConfigurationExpectation(wanted) }
        let fraction = parts.count == 2 ? String(parts[1]) : ""
        // Nine digits behind the point are more than any unit has milliseconds.
        guard fraction.utf8.count <= 9, let digits = ConfigurationText.wholeNumber(parts[0] + fraction) else {
            throw ConfigurationExpectation(wanted)
        }
        let scale = (0..<fraction.utf8.count).reduce(Int64(1)) { scale, _ in scale * 10 }
        let (scaled, overflow) = digits.multipliedReportingOverflow(by: unit.milliseconds)
        guard !overflow else { throw ConfigurationExpectation("a shorter duration") }
        guard scaled % scale == 0 else { throw ConfigurationExpectation("a duration of whole milliseconds") }
        return .milliseconds(scaled / scale)
    }

    /// `5s..60s`; a single duration is a range of one.
    static func parseRange(_ text: String) throws(ConfigurationExpectation) -> ClosedRange<Duration> {
        guard let dots = text.firstRange(of: "..") else {
            let single = try parse(text)
            return single...single
        }
        let lower = try parse(text[..<dots.lowerBound])
        let upper = try parse(text[dots.upperBound...])
        guard lower <= upper else { throw ConfigurationExpectation("a range whose first duration is not the longer one") }
        return lower...upper
    }

    /// The spelling with the longest unit that needs no fraction: `1m` for 60 seconds, `90s` for ninety.
    package static func shortest(_ duration: Duration) -> String {
        let milliseconds = duration.wholeMilliseconds
        let unit = units.first { milliseconds != 0 && milliseconds % $0.milliseconds == 0 }
        guard let unit else { return "\(milliseconds)ms" }
        return "\(milliseconds / unit.milliseconds)\(unit.symbol)"
    }
}
