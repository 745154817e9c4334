/// A set of HTTP statuses, as ranges.
public struct StatusSet: Hashable, Sendable {
    /// The ranges; they may overlap.
    public var ranges: [ClosedRange<Int>]

    /// Creates the set of the statuses in any of these ranges.
    public init(_ ranges: ClosedRange<Int>...) {
        self.ranges = ranges
    }

    /// Creates the set of the statuses in any of these ranges.
    public init(ranges: [ClosedRange<Int>]) {
        self.ranges = ranges
    }

    /// The range of all HTTP statuses.
    public static let possible = 100...599

    /// Returns whether the set contains `status`. O(n) in ranges.
    public func contains(_ status: Int) -> Bool {
        ranges.contains { $0.contains(status) }
    }
}

extension StatusSet: DigestedSetting {
    package var digestedParts: Parts { [("ranges", ranges)] }
}
