/// How many frames of a client are read: those without which nothing is asked, pings, resets, scraps of messages, messages of a stream
/// that say nothing and calls that fail, cost as much as those that are of use, and would keep the others waiting. A call that is
/// answered earns more than it takes, unless it is long; whoever has spent what it has is read again when there is more. Pure: its
/// owner hands the time in, in nanoseconds.
struct FrameBudget {
    /// Frames that a client may send whatever they are, in a second.
    static let perSecond: Int64 = 1000
    private static let most: Int64 = 1000
    /// As many calls as may be under way at a time earn while they come.
    private static let first: Int64 = 300
    /// For a call, which is of two frames and a few about windows.
    static let earned: Int64 = 8
    private static let bytesPerFrame = 4096
    private static let nanosecondsPerFrame: Int64 = 1_000_000_000 / perSecond

    private var left = first
    private var countedAt: Int64

    init(now: Int64) {
        countedAt = now
    }

    mutating func spend(_ frames: Int64 = 1) { left -= frames }
    /// For a message that is whole: it is decoded in one turn, however it came.
    mutating func spend(messageOf bytes: Int) { spend(Int64(bytes / Self.bytesPerFrame)) }
    mutating func earn() { left = min(Self.most, left + Self.earned) }

    var isSpent: Bool { left <= 0 }

    /// In how many nanoseconds a client that has spent what it had is to be read again.
    mutating func pause(now: Int64) -> Int64 {
        let new = (now - countedAt) / Self.nanosecondsPerFrame
        countedAt += new * Self.nanosecondsPerFrame
        left = min(Self.most, left + new)
        return left > 0 ? 0 : (1 - left) * Self.nanosecondsPerFrame
    }
}
