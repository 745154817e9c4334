/// A set of HTTP statuses, as ranges.
public struct StatusSet: Hashable, Sendable {
    public var ranges: [ClosedRange<Int>]

    public init(_ ranges: ClosedRange<Int>...) {
        self.ranges = ranges
    }

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
