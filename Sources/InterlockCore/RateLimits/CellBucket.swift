/// What was taken of a `CellRate`, as its theoretical arrival time.
struct CellBucket: Sendable {
    let rate: CellRate
    /// When all of it is there again, in microseconds of the caller's clock; `nil`: it is.
    private var fullAt: CellRate.Time?

    init(rate: CellRate) {
        self.rate = rate
    }

    private func arrival(now: Int64) -> CellRate.Time {
        let present = CellRate.Time(whole: now, part: 0)
        return max(fullAt ?? present, present)
    }

    /// The units that are taken, begun ones included.
    func taken(now: Int64) -> Int64 {
        rate.units(in: rate.difference(arrival(now: now), CellRate.Time(whole: now, part: 0)))
    }

    mutating func take(_ units: Int64, now: Int64) {
        fullAt = rate.sum(arrival(now: now), rate.time(of: units))
    }

    /// In how many microseconds no more than `units` will be taken.
    func wait(until units: Int64, now: Int64) -> Int64 {
        let due = rate.difference(arrival(now: now), rate.time(of: max(0, units)))
        return max(0, due.roundedUp - now)
    }
}
