/// The end of a state that the fleet shares, as one sidecar follows it.
///
/// Redis stores the end as a number by its own clock, which may jump. A sidecar converts the end to its own clock when
/// it learns of it, and follows that. If it finds that the Redis clock has jumped since, it has the number corrected,
/// for sidecars that start later.
struct SharedEnd: Sendable {
    /// The times at which a state was read, by the Redis clock and by the sidecar's.
    struct Reading: Sendable {
        /// The time of the reading, as Unix time in milliseconds by the Redis clock.
        var redisTime: Int64
        /// The start of the state that has this end, by the Redis clock.
        var sinceMilliseconds: Int64
        /// The time of the request; `nil` for a message, which may have been delayed.
        var sentAt: Instant?
        var receivedAt: Instant

        /// Whether the reading determines an end to within half a second.
        var isTimely: Bool {
            sentAt.map { receivedAt.nanoseconds - $0.nanoseconds <= SharedEnd.tolerance * 1_000_000 } ?? false
        }

        /// Whether the state began before it was read, by the Redis clock, which may have jumped in between.
        var isPreexisting: Bool {
            let age = redisTime.subtractingReportingOverflow(sinceMilliseconds).partialValue
            return sentAt != nil && !(0...SharedEnd.tolerance).contains(age)
        }

        /// Returns the instant at which the Redis clock shows these milliseconds, unless it jumps; `nil` for 0.
        func instant(of epochMilliseconds: Int64) -> Instant? {
            guard epochMilliseconds > 0 else { return nil }
            let (left, isOverflow) = epochMilliseconds.subtractingReportingOverflow(redisTime)
            guard !isOverflow else { return .distantFuture }
            // Redis compares whole milliseconds, so one more ensures that it is never asked too early.
            return receivedAt.advanced(byMilliseconds: left).advanced(byMilliseconds: 1)
        }
    }

    private enum Source: Sendable {
        /// A timely answer, which is exact unless the Redis clock had jumped earlier.
        case measured
        /// A message, which may be late.
        case received
        /// A state that began before this sidecar learned of it, so that the Redis clock may have jumped in between.
        case preexisting
    }

    /// The precision of a timely reading, in milliseconds.
    private static let tolerance: Int64 = 500
    /// The minimum time for which a sidecar relies on a state that it finds, in milliseconds. Sidecars read states
    /// every 5 s and correct the ends that they find.
    private static let graceMilliseconds: Int64 = 7000

    /// The number in Redis; 0 if there is no end.
    private(set) var number: Int64 = 0
    /// The end on this sidecar's clock.
    private(set) var instant: Instant?
    /// The number that Redis should have; `nil` if `number` is not known to be wrong.
    private(set) var correction: Int64?
    private var source = Source.measured
    /// The length of the state when it began, in milliseconds.
    private var length: Int64 = 0

    init() {}

    /// Creates the end of a state that has just become known.
    init(_ number: Int64, _ reading: Reading) {
        guard number > 0 else { return }
        self.number = number
        length = max(0, number.subtractingReportingOverflow(reading.sinceMilliseconds).partialValue)
        instant = reading.instant(of: number).map { max($0, reading.receivedAt) }
        if reading.isPreexisting {
            source = .preexisting
            let earliest = reading.receivedAt.advanced(byMilliseconds: min(Self.graceMilliseconds, length))
            instant = instant.map { max($0, earliest) }
        } else if !reading.isTimely {
            source = .received
        }
    }

    func isOver(now: Instant) -> Bool { instant.map { $0 <= now } ?? false }

    /// Follows the end when the same state was read again.
    /// - Parameter mayBeExtended: whether the state may have been prolonged, as by a failed probe.
    mutating func follow(_ number: Int64, _ reading: Reading, mayBeExtended: Bool) {
        guard number > 0, let known = instant, let end = reading.instant(of: number) else {
            if number != self.number { self = SharedEnd(number, reading) }
            return
        }
        let hasChanged = number != self.number
        self.number = number
        correction = nil
        if hasChanged, reading.sentAt == nil || mayBeExtended {
            guard end > known else { return }
            instant = end
            source = reading.isTimely ? .measured : .received
            return
        }
        // The shift of the end in Redis, in nanoseconds.
        let (shift, isOverflow) = known.nanoseconds.subtractingReportingOverflow(end.nanoseconds)
        guard reading.isTimely, !isOverflow else { return }
        let hasJumped = Int64(clamping: shift.magnitude) / 1_000_000 > 3 * Self.tolerance + length / 100
        switch source {
        case .measured where hasJumped:
            let (corrected, overflow) = number.addingReportingOverflow(shift / 1_000_000)
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
