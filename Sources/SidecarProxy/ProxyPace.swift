internal import DequeModule
internal import InterlockCore
internal import NIOCore

/// A call that begins when the proxy's pace allows it.
protocol PacedCall: AnyObject {
    /// Whether it is still to begin.
    var isWanted: Bool { get }
    func goAhead()
}

/// Lets the proxy's calls begin so that turns of the event loop stay short, in the order in which they came. Confined to that loop.
///
/// A turn is measured from the first call that begins or ends in it to when all else of it is done. Whatever else keeps the loop busy, and
/// however many calls are under way, a few begin every two milliseconds.
final class ProxyPace {
    private static let patience = TimeAmount.milliseconds(2)
    private static let mostPatiences: Int64 = 16
    private static let look = TimeAmount.microseconds(250)
    /// Of a turn, for those who have waited.
    private static let release = TimeAmount.nanoseconds(CallWindow.longTurn / 2)

    private let eventLoop: any EventLoop
    private let clock: () -> NIODeadline
    private var window = CallWindow()
    private var waiting: Deque<any PacedCall> = []
    private var underWay = 0
    /// At most, in this turn.
    private var crest = 0
    private var turnBegan: NIODeadline?
    private var lastBegin = NIODeadline.uptimeNanoseconds(0)
    private var isReleasing = false
    private var isLookPlanned = false
    /// No turn has ended since the look was planned.
    private var isQuiet = false

    init(eventLoop: any EventLoop, clock: (() -> NIODeadline)? = nil) {
        self.eventLoop = eventLoop
        self.clock = clock ?? { eventLoop.now }
    }

    /// The call goes ahead now or later; then `ended` must follow.
    func begin(_ call: any PacedCall) {
        // It follows one that was over at once: those who wait go first, and not all at one time.
        guard !isReleasing else { return waiting.append(call) }
        let now = clock()
        let began = turn(now)
        guard waiting.isEmpty, underWay < window.size, (now - began).nanoseconds <= CallWindow.longTurn else {
            waiting.append(call)
            return planLook()
        }
        admit(call, now)
    }

    /// A call that has begun is over, or rests.
    func ended() {
        underWay -= 1
        if !isReleasing { _ = turn(clock()) }
    }

    private func admit(_ call: any PacedCall, _ now: NIODeadline) {
        underWay += 1
        crest = max(crest, underWay)
        lastBegin = now
        call.goAhead()
    }

    /// - Returns: when this turn began.
    private func turn(_ now: NIODeadline) -> NIODeadline {
        if let turnBegan { return turnBegan }
        turnBegan = now
        crest = underWay
        // Behind all that this turn has read.
        eventLoop.assumeIsolated().execute { [self] in turnEnds() }
        return now
    }

    private func turnEnds() {
        guard let began = turnBegan else { return }
        turnBegan = nil
        isQuiet = false
        let now = clock()
        window.noteTurn(nanoseconds: (now - began).nanoseconds, underWay: crest)
        // Those who have waited for long go ahead although the window is full.
        let patiences = (now - lastBegin).nanoseconds / Self.patience.nanoseconds
        release(beyond: CallWindow.least * Int(min(patiences, Self.mostPatiences)))
    }

    /// - Parameter extra: so many at least go ahead.
    private func release(beyond extra: Int) {
        isReleasing = true
        let most = max(window.size, underWay + extra)
        let began = clock()
        var now = began
        while let call = waiting.first, underWay < most, now - began < Self.release {
            waiting.removeFirst()
            guard call.isWanted else { continue }
            admit(call, now)
            now = clock()
        }
        isReleasing = false
        planLook()
    }

    /// Sees to it that those who wait are looked at again even if no call begins or ends. Then that is a turn, and a short one: all that is
    /// under way waits for others than this loop, and the window widens.
    private func planLook() {
        guard !waiting.isEmpty, !isLookPlanned else { return }
        isLookPlanned = true
        isQuiet = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.look) { [self] in
            isLookPlanned = false
            if isQuiet { _ = turn(clock()) } else { planLook() }
        }
    }
}
