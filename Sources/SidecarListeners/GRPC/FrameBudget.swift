/// Limits the frames that are read from one client. Pings, resets, fragments of messages, messages without content and
/// failing calls cost as much as useful frames, and would delay other clients. An answered call earns more than it
/// costs, unless its message is long. A client that has spent its budget is read again when the budget recovers. Pure:
/// the owner supplies the time, in nanoseconds.
struct FrameBudget {
    /// The frames of any kind that a client may send per second.
    static let perSecond: Int64 = 1000
    private static let maximum: Int64 = 1000
    /// The initial budget. It outlasts a burst of as many calls as may be concurrent, because calls earn while the
    /// burst arrives.
    private static let initial: Int64 = 300
    /// The frames that an answered call earns. A call costs two frames, and a few for window updates.
    static let earned: Int64 = 8
    private static let bytesPerFrame = 4096
    private static let nanosecondsPerFrame: Int64 = 1_000_000_000 / perSecond

    private var balance = initial
    private var refilledAt: Int64

    init(now: Int64) {
        refilledAt = now
    }

    mutating func spend(_ frames: Int64 = 1) { balance -= frames }
    /// Charges a complete message by its length: it is decoded in one step, however it arrived.
    mutating func spend(messageOf bytes: Int) { spend(Int64(bytes / Self.bytesPerFrame)) }
    mutating func earn() { balance = min(Self.maximum, balance + Self.earned) }

    var isSpent: Bool { balance <= 0 }

    /// Returns the nanoseconds until a client that has spent its budget may be read again.
    mutating func pause(now: Int64) -> Int64 {
        let new = (now - refilledAt) / Self.nanosecondsPerFrame
        refilledAt += new * Self.nanosecondsPerFrame
        balance = min(Self.maximum, balance + new)
        return balance > 0 ? 0 : (1 - balance) * Self.nanosecondsPerFrame
    }
}
