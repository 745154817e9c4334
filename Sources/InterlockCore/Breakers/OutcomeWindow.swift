/// A service's recent outcomes as this sidecar sees them, in slices, of which the oldest is dropped first.
/// `breaker-report.lua` keeps the fleet's outcomes in the same way. Recording an outcome is O(1).
struct OutcomeWindow: Sendable {
    /// The number of slices. A window of calls has another one, which is being filled, so that the window never holds
    /// fewer calls than configured.
    private static let sliceCount = Int64(BreakerSettings.windowSlices)

    private let kind: BreakerSettings.Window
    private var slices: [OutcomeSums]
    /// The number of the slice that is being filled, counted from the clock's start or from the first call.
    private var newestNumber: Int64 = 0
    private var total = OutcomeSums()

    init(_ kind: BreakerSettings.Window) {
        self.kind = kind
        let count =
            switch kind {
            case .time: Self.sliceCount
            case .calls: Self.sliceCount + 1
            }
        slices = Array(repeating: OutcomeSums(), count: Int(count))
    }

    /// Returns the outcomes in the window. The count of failures in a row extends beyond it.
    mutating func sums(now: Instant) -> OutcomeSums {
        if case .time(let length) = kind { move(to: Self.number(of: now, length)) }
        return total
    }

    mutating func add(isFailure: Bool, isSlow: Bool, now: Instant) {
        switch kind {
        case .time(let length):
            move(to: Self.number(of: now, length))
        case .calls(let count):
            if slices[index(of: newestNumber)].calls >= Self.callsPerSlice(of: count) { move(to: newestNumber &+ 1) }
        }
        slices[index(of: newestNumber)].add(isFailure: isFailure, isSlow: isSlow)
        total.add(isFailure: isFailure, isSlow: isSlow)
    }

    mutating func removeAll() {
        for index in slices.indices { slices[index] = OutcomeSums() }
        total = OutcomeSums()
    }

    /// Makes the slice with this number the newest, and drops the slices that leave the window.
    private mutating func move(to number: Int64) {
        let steps = min(number &- newestNumber, Int64(slices.count))
        guard steps > 0 else { return }
        for step in 0..<steps {
            let index = index(of: number &- step)
            total.calls -= slices[index].calls
            total.failures -= slices[index].failures
            total.slow -= slices[index].slow
            slices[index] = OutcomeSums()
        }
        newestNumber = number
    }

    /// Returns the index of the slice with this number.
    private func index(of number: Int64) -> Int { Int(number % Int64(slices.count)) }

    /// Returns the number of the slice of `now` in a window of time.
    private static func number(of now: Instant, _ length: Duration) -> Int64 {
        max(0, now.nanoseconds / 1_000_000) / max(1, length.wholeMilliseconds / sliceCount)
    }

    private static func callsPerSlice(of count: Int) -> Int64 { (Int64(count) + sliceCount - 1) / sliceCount }
}
