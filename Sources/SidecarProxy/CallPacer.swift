internal import DequeModule
internal import InterlockCore
internal import NIOCore

/// A call that begins when the pacer allows it.
protocol PacedCall: AnyObject {
    /// Whether the call still needs to begin.
    var isWanted: Bool { get }
    func admitted()
}

/// Admits the proxy's calls in the order of their arrival, and only as many at a time as keep the ticks of the event
/// loop short. Confined to that loop.
///
/// A tick is measured from the first call that begins or ends in it to the end of the tick. However busy the loop is,
/// and however many calls are in progress, a few calls are admitted every two milliseconds.
final class CallPacer {
    private static let releaseInterval = TimeAmount.milliseconds(2)
    private static let maximumIntervals: Int64 = 16
    private static let recheckDelay = TimeAmount.microseconds(250)
    /// The maximum time per tick for starting calls that waited.
    private static let releaseDuration = TimeAmount.nanoseconds(CallWindow.longTick / 2)

    private let eventLoop: any EventLoop
    private let clock: () -> NIODeadline
    private var window = CallWindow()
    private var waiting: Deque<any PacedCall> = []
    private var inFlight = 0
    /// The maximum number of concurrent calls in this tick.
    private var peakInFlight = 0
    private var tickBegan: NIODeadline?
    private var lastBegin = NIODeadline.uptimeNanoseconds(0)
    private var isReleasing = false
    private var isCheckScheduled = false
    /// Whether no tick has ended since the check was scheduled.
    private var isQuiet = false

    init(eventLoop: any EventLoop, clock: (() -> NIODeadline)? = nil) {
        self.eventLoop = eventLoop
        self.clock = clock ?? { eventLoop.now }
    }

    /// Calls the call's `admitted`, now or later. Once that has happened, the call must call `ended`.
    func begin(_ call: any PacedCall) {
        // A released call ended immediately and its client has sent another, which must not overtake waiting calls.
        guard !isReleasing else { return waiting.append(call) }
        let now = clock()
        let began = noteTick(now)
        guard waiting.isEmpty, inFlight < window.size, (now - began).nanoseconds <= CallWindow.longTick else {
            waiting.append(call)
            return scheduleCheck()
        }
        admit(call, now)
    }

    /// Records that a call that had begun has ended or pauses before a retry.
    func ended() {
        inFlight -= 1
        if !isReleasing { _ = noteTick(clock()) }
    }

    private func admit(_ call: any PacedCall, _ now: NIODeadline) {
        inFlight += 1
        peakInFlight = max(peakInFlight, inFlight)
        lastBegin = now
        call.admitted()
    }

    /// - Returns: the start of this tick.
    private func noteTick(_ now: NIODeadline) -> NIODeadline {
        if let tickBegan { return tickBegan }
        tickBegan = now
        peakInFlight = inFlight
        // Runs after the tick has processed everything that it read.
        eventLoop.assumeIsolated().execute { [self] in tickEnded() }
        return now
    }

    private func tickEnded() {
        guard let began = tickBegan else { return }
        tickBegan = nil
        isQuiet = false
        let now = clock()
        window.noteTick(nanoseconds: (now - began).nanoseconds, inFlight: peakInFlight)
        // If no call has begun for a while, some waiting calls begin although the window is full.
        let intervals = (now - lastBegin).nanoseconds / Self.releaseInterval.nanoseconds
        release(beyond: CallWindow.minimumSize * Int(min(intervals, Self.maximumIntervals)))
    }

    /// - Parameter extra: the number of calls that may begin even if the window is full.
    private func release(beyond extra: Int) {
        isReleasing = true
        let limit = max(window.size, inFlight + extra)
        let began = clock()
        var now = began
        while let call = waiting.first, inFlight < limit, now - began < Self.releaseDuration {
            waiting.removeFirst()
            guard call.isWanted else { continue }
            admit(call, now)
            now = clock()
        }
        isReleasing = false
        scheduleCheck()
    }

    /// Schedules a check of the waiting calls. If no call begins or ends before it, the check counts as a short tick
    /// and widens the window, because the calls in progress are waiting for something other than this loop.
    private func scheduleCheck() {
        guard !waiting.isEmpty, !isCheckScheduled else { return }
        isCheckScheduled = true
        isQuiet = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.recheckDelay) { [self] in
            isCheckScheduled = false
            if isQuiet { _ = noteTick(clock()) } else { scheduleCheck() }
        }
    }
}
