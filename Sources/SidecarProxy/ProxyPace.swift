internal import DequeModule
internal import InterlockCore
internal import NIOCore

/// A call that begins when the proxy's pace allows it.
protocol PacedCall: AnyObject {
    /// Whether the call is still to begin.
    var isWanted: Bool { get }
    func goAhead()
}

/// Lets the proxy's calls begin in the order of their arrival, and only as many as keep the ticks of the event loop
/// short. Confined to that loop.
///
/// A tick is measured from the first call that begins or ends in it until all its other work is done. However busy the
/// loop is, and however many calls are in progress, a few calls begin every two milliseconds.
final class ProxyPace {
    private static let patience = TimeAmount.milliseconds(2)
    private static let maximumPatiences: Int64 = 16
    private static let look = TimeAmount.microseconds(250)
    /// The part of a tick in which waiting calls may begin.
    private static let release = TimeAmount.nanoseconds(CallWindow.longTick / 2)

    private let eventLoop: any EventLoop
    private let clock: () -> NIODeadline
    private var window = CallWindow()
    private var waiting: Deque<any PacedCall> = []
    private var inFlight = 0
    /// The most calls in progress at a time in this tick.
    private var peakInFlight = 0
    private var tickBegan: NIODeadline?
    private var lastBegin = NIODeadline.uptimeNanoseconds(0)
    private var isReleasing = false
    private var isCheckPlanned = false
    /// Whether no tick has ended since the check was scheduled.
    private var isQuiet = false

    init(eventLoop: any EventLoop, clock: (() -> NIODeadline)? = nil) {
        self.eventLoop = eventLoop
        self.clock = clock ?? { eventLoop.now }
    }

    /// Lets the call go ahead, now or later. `ended` must follow once it has.
    func begin(_ call: any PacedCall) {
        // A released call ended at once, and this one follows it. Waiting calls go first, within the release's limits.
        guard !isReleasing else { return waiting.append(call) }
        let now = clock()
        let began = noteTick(now)
        guard waiting.isEmpty, inFlight < window.size, (now - began).nanoseconds <= CallWindow.longTick else {
            waiting.append(call)
            return planCheck()
        }
        admit(call, now)
    }

    /// Notes that a call that had begun has ended, or pauses before a retry.
    func ended() {
        inFlight -= 1
        if !isReleasing { _ = noteTick(clock()) }
    }

    private func admit(_ call: any PacedCall, _ now: NIODeadline) {
        inFlight += 1
        peakInFlight = max(peakInFlight, inFlight)
        lastBegin = now
        call.goAhead()
    }

    /// - Returns: the time at which this tick began.
    private func noteTick(_ now: NIODeadline) -> NIODeadline {
        if let tickBegan { return tickBegan }
        tickBegan = now
        peakInFlight = inFlight
        // Runs after everything that this tick has read.
        eventLoop.assumeIsolated().execute { [self] in tickEnded() }
        return now
    }

    private func tickEnded() {
        guard let began = tickBegan else { return }
        tickBegan = nil
        isQuiet = false
        let now = clock()
        window.noteTick(nanoseconds: (now - began).nanoseconds, inFlight: peakInFlight)
        // If no call has begun for a while, some waiting calls go ahead although the window is full.
        let patiences = (now - lastBegin).nanoseconds / Self.patience.nanoseconds
        release(beyond: CallWindow.least * Int(min(patiences, Self.maximumPatiences)))
    }

    /// - Parameter extra: the number of calls that may begin even if the window is full.
    private func release(beyond extra: Int) {
        isReleasing = true
        let most = max(window.size, inFlight + extra)
        let began = clock()
        var now = began
        while let call = waiting.first, inFlight < most, now - began < Self.release {
            waiting.removeFirst()
            guard call.isWanted else { continue }
            admit(call, now)
            now = clock()
        }
        isReleasing = false
        planCheck()
    }

    /// Schedules a check of the waiting calls, in case no call begins or ends until then. The check then counts as a
    /// short tick, and the window widens: everything in progress waits for something other than this loop.
    private func planCheck() {
        guard !waiting.isEmpty, !isCheckPlanned else { return }
        isCheckPlanned = true
        isQuiet = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.look) { [self] in
            isCheckPlanned = false
            if isQuiet { _ = noteTick(clock()) } else { planCheck() }
        }
    }
}
