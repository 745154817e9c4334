/// The shape of the generic cell rate algorithm (ITU-T I.371, as redis-cell keeps it): at most `capacity` units at once, and
/// one more every window ÷ limit, which is kept exact: whole microseconds and limit-ths of one.
public struct CellRate: Hashable, Sendable {
    /// How long it may take until `capacity` units are there again, in microseconds: a hundred years. With today's time added
    /// it stays below 2⁵³, up to which Redis' scripts count exactly.
    public static let longestFillMicroseconds: Int64 = 100 * 366 * 86_400 * 1_000_000

    public let limit: Int64
    public let windowMicroseconds: Int64
    public let capacity: Int64

    public init(limit: Int64, windowMicroseconds: Int64, capacity: Int64) {
        self.limit = limit
        self.windowMicroseconds = windowMicroseconds
        self.capacity = capacity
    }

    /// Whether its arithmetic is exact in a script.
    public var isExact: Bool {
        let (high, low) = capacity.multipliedFullWidth(by: windowMicroseconds)
        let (mostHigh, mostLow) = Self.longestFillMicroseconds.multipliedFullWidth(by: limit)
        return (high, low) <= (mostHigh, mostLow)
    }

    /// A time: whole microseconds and limit-ths of one.
    struct Time: Hashable, Comparable, Sendable {
        var whole: Int64
        var part: Int64

        /// Whole microseconds, rounded up.
        var roundedUp: Int64 { part > 0 ? whole + 1 : whole }

        static func < (left: Time, right: Time) -> Bool { (left.whole, left.part) < (right.whole, right.part) }
    }

    /// What `units` take up. Saturates.
    func time(of units: Int64) -> Time {
        let (steps, rest) = windowMicroseconds.quotientAndRemainder(dividingBy: limit)
        let (whole, overflow) = units.multipliedReportingOverflow(by: steps)
        let (parts, partsOverflow) = units.multipliedReportingOverflow(by: rest)
        guard !overflow, !partsOverflow else { return Time(whole: .max / 2, part: 0) }
        let (sum, sumOverflow) = whole.addingReportingOverflow(parts / limit)
        guard !sumOverflow else { return Time(whole: .max / 2, part: 0) }
        return Time(whole: min(sum, .max / 2), part: parts % limit)
    }

    func sum(_ left: Time, _ right: Time) -> Time {
        let parts = left.part + right.part
        return Time(whole: left.whole + right.whole + parts / limit, part: parts % limit)
    }

    func difference(_ left: Time, _ right: Time) -> Time {
        let parts = left.part - right.part
        return parts < 0
            ? Time(whole: left.whole - right.whole - 1, part: parts + limit) : Time(whole: left.whole - right.whole, part: parts)
    }

    /// How many units a backlog of `time` is, begun ones included; `capacity + 1` for any above the capacity.
    func units(in time: Time) -> Int64 {
        guard time > Time(whole: 0, part: 0) else { return 0 }
        guard time <= self.time(of: capacity) else { return capacity + 1 }
        // The least number whose time is not shorter. O(log capacity).
        var low: Int64 = 0
        var high = capacity
        while low < high {
            let middle = low + (high - low) / 2
            if self.time(of: middle) >= time { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
