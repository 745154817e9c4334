/// Parses a range of durations: `0..5ms`, or `2ms` for a constant one.
package enum DurationRangeText {
    /// Parses a range.
    /// - Parameter duration: a closure that parses one duration, such as `5ms`. A bare `0` needs no unit.
    package static func parse(
        _ text: String, duration: (Substring) throws -> Duration
    ) throws(LoadArgumentError) -> ClosedRange<Duration> {
        let mistake = LoadArgumentError(
            expected: "a duration or a range, such as 2ms or 0..5ms", found: text)
        func read(_ part: Substring) throws(LoadArgumentError) -> Duration {
            if part == "0" { return .zero }
            do { return try duration(part) } catch { throw mistake }
        }
        guard let dots = text.firstRange(of: "..") else {
            let constant = try read(text[...])
            return constant...constant
        }
        let lower = try read(text[..<dots.lowerBound])
        let upper = try read(text[dots.upperBound...])
        guard lower <= upper else { throw mistake }
        return lower...upper
    }
}
