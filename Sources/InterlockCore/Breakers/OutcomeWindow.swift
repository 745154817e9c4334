/// A service's recent outcomes as seen by this sidecar, in slices of which the oldest is dropped. The script stores the
/// fleet's outcomes in the same way. O(1) for each outcome.
struct OutcomeWindow: Sendable {
    /// The number of slices. A window of calls has one more, which is being filled, so that it never holds fewer calls
    /// than configured.
    private static let slices = Int64(BreakerSettings.windowSlices)

    private let kind: BreakerSettings.Window
    private var ring: [OutcomeSums]
    /// The number of the slice that is being filled, counted from the clock's start or from the first call.
    private var newest: Int64 = 0
    private var total = OutcomeSums()

    init(_ kind: BreakerSettings.Window) {
        self.kind = kind
        let count =
            switch kind {
            case .time: Self.slices
            case .calls: Self.slices + 1
            }
        ring = Array(repeating: OutcomeSums(), count: Int(count))
    }

    /// Returns the outcomes in the window. The count of failures in a row extends beyond it.
    mutating func sums(now: Instant) -> OutcomeSums {
        if case .time(let length) = kind { move(to: Self.slice(of: now, length)) }
        return total
    }

    mutating func add(isFailure: Bool, isSlow: Bool, now: Instant) {
        switch kind {
        case .time(let length):
            move(to: Self.slice(of: now, length))
        case .calls(let count):
            if ring[position(newest)].calls >= Self.callsInSlice(of: count) { move(to: newest &+ 1) }
        }
        ring[position(newest)].add(isFailure: isFailure, isSlow: isSlow)
        total.add(isFailure: isFailure, isSlow: isSlow)
    }

    mutating func removeAll() {
        for index in ring.indices { ring[index] = OutcomeSums() }
        total = OutcomeSums()
    }

    private mutating func move(to number: Int64) {
        let steps = min(number &- newest, Int64(ring.count))
        guard steps > 0 else { return }
        for step in 0..<steps {
            let index = position(number &- step)
            total.calls -= ring[index].calls
            total.failures -= ring[index].failures
            total.slow -= ring[index].slow
            ring[index] = OutcomeSums()
        }
        newest = number
    }

    private func position(_ number: Int64) -> Int { Int(number % Int64(ring.count)) }

    private static func slice(of now: Instant, _ length: Duration) -> Int64 {
        max(0, now.nanoseconds / 1_000_000) / max(1, length.wholeMilliseconds / slices)
    }

    private static func callsInSlice(of count: Int) -> Int64 { (Int64(count) + slices - 1) / slices }
}
