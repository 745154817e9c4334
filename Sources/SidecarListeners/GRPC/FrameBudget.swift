/// Limits the frames that are read from one client. Pings, resets, fragments of messages, messages without content and
/// failing calls cost as much as useful frames, and would delay other clients. A call that gets its response earns more
/// than it costs, unless its message is long. A client that has spent its budget is read again when the budget
/// recovers. Pure: the owner supplies the time, in nanoseconds.
struct FrameBudget {
    /// The number of frames of any kind that a client may send per second.
    static let framesPerSecond: Int64 = 1000
    /// The maximum budget, in frames.
    private static let maximumBalance: Int64 = 1000
    /// The initial budget, in frames. It suffices for a burst of as many calls as may be concurrent, because calls earn
    /// while the burst arrives.
    private static let initialBalance: Int64 = 300
    /// The number of frames that a call earns with its response. The call itself costs two frames, and a few for window
    /// updates.
    static let framesPerUsefulCall: Int64 = 8
    /// The length of a message that costs as much as a frame, in bytes.
    private static let bytesPerFrame = 4096
    private static let nanosecondsPerFrame: Int64 = 1_000_000_000 / framesPerSecond

    /// The number of frames that may be read; not positive if the budget is spent.
    private var balance = initialBalance
    private var refilledAtNanoseconds: Int64

    init(nowNanoseconds: Int64) {
        refilledAtNanoseconds = nowNanoseconds
    }

    /// Charges frames.
    mutating func spend(_ frames: Int64 = 1) { balance -= frames }
    /// Charges a complete message by its length: it is decoded in one step, in however many frames it arrived.
    mutating func spend(messageOf bytes: Int) { spend(Int64(bytes / Self.bytesPerFrame)) }
    /// Credits a useful call.
    mutating func earn() { balance = min(Self.maximumBalance, balance + Self.framesPerUsefulCall) }

    var isSpent: Bool { balance <= 0 }

    /// Refills the budget, and returns the nanoseconds until the client may be read again; 0 if it may be read now.
    mutating func pauseNanoseconds(nowNanoseconds: Int64) -> Int64 {
        let refill = (nowNanoseconds - refilledAtNanoseconds) / Self.nanosecondsPerFrame
        refilledAtNanoseconds += refill * Self.nanosecondsPerFrame
        balance = min(Self.maximumBalance, balance + refill)
        return balance > 0 ? 0 : (1 - balance) * Self.nanosecondsPerFrame
    }
}
