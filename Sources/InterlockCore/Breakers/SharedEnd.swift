/// The end of a state that the fleet shares, as one sidecar follows it.
///
/// Redis stores the end as a time of its own clock, which may jump. When a sidecar learns of the end, it converts the
/// end to its own monotonic clock and relies on the result. If it finds that the Redis clock has jumped since, it has
/// the stored number corrected, for sidecars that start later.
struct SharedEnd: Sendable {
    /// The times at which a state was read, by the Redis clock and by the sidecar's clock.
    struct Reading: Sendable {
        /// The time of the reading, as Unix time in milliseconds by the Redis clock.
        var redisTimeMilliseconds: Int64
        /// The start of the state, as Unix time in milliseconds by the Redis clock.
        var sinceMilliseconds: Int64
        /// The time of the request; `nil` for a message, which may have been delayed.
        var sentAt: Instant?
        var receivedAt: Instant

        /// Whether the reading determines an end to within half a second.
        var isTimely: Bool {
            sentAt.map { receivedAt.nanoseconds - $0.nanoseconds <= SharedEnd.toleranceMilliseconds * 1_000_000 }
                ?? false
        }

        /// Whether the state began before it was read, by the Redis clock, which may have jumped in between.
        var isPreexisting: Bool {
            let ageMilliseconds = redisTimeMilliseconds.subtractingReportingOverflow(sinceMilliseconds).partialValue
            return sentAt != nil && !(0...SharedEnd.toleranceMilliseconds).contains(ageMilliseconds)
        }

        /// Returns the instant at which the Redis clock shows these milliseconds, unless it jumps; `nil` for 0.
        func instant(of epochMilliseconds: Int64) -> Instant? {
            guard epochMilliseconds > 0 else { return nil }
            let (remainingMilliseconds, isOverflow) = epochMilliseconds.subtractingReportingOverflow(redisTimeMilliseconds)
            guard !isOverflow else { return .distantFuture }
            // Redis compares whole milliseconds. An additional one ensures that no request arrives too early.
            return receivedAt.advanced(byMilliseconds: remainingMilliseconds).advanced(byMilliseconds: 1)
        }
    }

    private enum Source: Sendable {
        /// A timely reply, which is exact unless the Redis clock had jumped earlier.
        case measured
        /// A message, which may be late.
        case received
        /// A state that began before this sidecar learned of it, so that the Redis clock may have jumped in between.
        case preexisting
    }

    /// The precision of a timely reading, in milliseconds.
    private static let toleranceMilliseconds: Int64 = 500
    /// The minimum time for which a sidecar relies on a state that began before it learned of it. Sidecars read states
    /// every 5 s, and correct wrong ends.
    private static let graceMilliseconds: Int64 = 7000

    /// The number that Redis stores, as Unix time in milliseconds; 0 if there is no end.
    private(set) var number: Int64 = 0
    /// The end on this sidecar's clock; `nil` if there is no end.
    private(set) var instant: Instant?
    /// The number that Redis should store; `nil` if `number` is not known to be wrong.
    private(set) var correction: Int64?
    private var source = Source.measured
    /// The length of the state when it began.
    private var lengthMilliseconds: Int64 = 0

    init() {}

    /// Creates the end of a state that has just become known.
    init(_ number: Int64, _ reading: Reading) {
        guard number > 0 else { return }
        self.number = number
        lengthMilliseconds = max(0, number.subtractingReportingOverflow(reading.sinceMilliseconds).partialValue)
        instant = reading.instant(of: number).map { max($0, reading.receivedAt) }
        if reading.isPreexisting {
            source = .preexisting
            let earliest = reading.receivedAt.advanced(byMilliseconds: min(Self.graceMilliseconds, lengthMilliseconds))
            instant = instant.map { max($0, earliest) }
        } else if !reading.isTimely {
            source = .received
        }
    }

    func isOver(now: Instant) -> Bool { instant.map { $0 <= now } ?? false }

    /// Updates the end after another reading of the same state.
    /// - Parameter mayBeExtended: whether the state may last longer than before, as after a failed probe.
    mutating func follow(_ number: Int64, _ reading: Reading, mayBeExtended: Bool) {
        guard number > 0, let knownEnd = instant, let end = reading.instant(of: number) else {
            if number != self.number { self = SharedEnd(number, reading) }
            return
        }
        let hasChanged = number != self.number
        self.number = number
        correction = nil
        if hasChanged, reading.sentAt == nil || mayBeExtended {
            guard end > knownEnd else { return }
            instant = end
            source = reading.isTimely ? .measured : .received
            return
        }
        // The shift of the end in Redis.
        let (shiftNanoseconds, isOverflow) = knownEnd.nanoseconds.subtractingReportingOverflow(end.nanoseconds)
        guard reading.isTimely, !isOverflow else { return }
        let shiftMilliseconds = Int64(clamping: shiftNanoseconds.magnitude) / 1_000_000
        let hasJumped = shiftMilliseconds > 3 * Self.toleranceMilliseconds + lengthMilliseconds / 100
        switch source {
        case .measured where hasJumped:
            let (corrected, overflow) = number.addingReportingOverflow(shiftNanoseconds / 1_000_000)
            correction = overflow ? nil : corrected
        case .measured:
            break
        case .received where !hasJumped, .received where hasChanged, .preexisting where hasChanged:
            instant = end
            source = .measured
        case .received, .preexisting:
            break
        }
    }
}
