import InterlockCore
import Yams

extension ConfigurationValue {
    /// Statuses: `200`, `200..399`, or a list of these such as `[200, 301..302]`; within 100..599, at least one.
    func statuses() -> StatusSet? {
        guard case .sequence(_) = node else {
            return parsed(by: StatusSet.parseRange).map { StatusSet(ranges: [$0]) }
        }
        let items = list()
        let ranges = items.compactMap { $0.parsed(by: StatusSet.parseRange) }
        guard !items.isEmpty else {
            refuse("expected \(StatusSet.wanted), got an empty list")
            return nil
        }
        return ranges.count == items.count ? StatusSet(ranges: ranges) : nil
    }
}

extension StatusSet {
    fileprivate static let wanted =
        "a status or a range of them, such as 200..399, within \(possible.lowerBound)..\(possible.upperBound)"

    fileprivate static func parseRange(_ text: String) throws(ConfigurationExpectation) -> ClosedRange<Int> {
        let parts =
            text.firstRange(of: "..").map { [text[..<$0.lowerBound], text[$0.upperBound...]] } ?? [text[...]]
        let ends = parts.compactMap(ConfigurationText.wholeNumber)
        guard ends.count == parts.count, let lower = ends.first, let upper = ends.last, lower <= upper,
            let lower = Int(exactly: lower), let upper = Int(exactly: upper),
            possible.contains(lower), possible.contains(upper)
        else { throw ConfigurationExpectation(wanted) }
        return lower...upper
    }
}
