/// A set of HTTP statuses, as ranges.
public struct StatusSet: Hashable, Sendable {
    /// The ranges; they may overlap.
    public var ranges: [ClosedRange<Int>]

    /// The statuses in any of these ranges.
    public init(_ ranges: ClosedRange<Int>...) {
        self.ranges = ranges
    }

    /// The statuses in any of these ranges.
    public init(ranges: [ClosedRange<Int>]) {
        self.ranges = ranges
    }

    /// Everything that can be a status.
    public static let possible = 100...599

    /// O(n) in ranges.
    public func contains(_ status: Int) -> Bool {
        ranges.contains { $0.contains(status) }
    }
}

extension StatusSet: DigestedSetting {
    package var digestedParts: Parts { [("ranges", ranges)] }
}
