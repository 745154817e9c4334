internal import DequeModule
internal import InterlockCore
internal import NIOCore

/// A call that begins when the proxy's pace allows it.
protocol PacedCall: AnyObject {
    /// - Returns: `false`: it is not wanted any more, and has not begun.
    func goAhead() -> Bool
}

/// Lets the proxy's calls begin so that turns of the event loop stay short, in the order in which they came. Confined to that loop.
///
/// A turn is measured from the first call that begins or ends in it to when all else of it is done. At least one call begins every two
/// milliseconds, whatever else keeps the loop busy.
final class ProxyPace {
    private static let patience = TimeAmount.milliseconds(2)
    private static let look = TimeAmount.microseconds(250)

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

    init(eventLoop: any EventLoop, clock: @escaping () -> NIODeadline = { .now() }) {
        self.eventLoop = eventLoop
        self.clock = clock
    }

    /// The call begins now or later. `ended` must follow.
    func begin(_ call: any PacedCall) {
        let now = clock()
        let began = turn(now)
        guard waiting.isEmpty, underWay < window.size, (now - began).nanoseconds <= CallWindow.longTurn else {
            waiting.append(call)
            return planLook()
        }
        admit(call, now)
    }

    /// A call that has begun is over.
    func ended() {
        underWay -= 1
        if !isReleasing, turnBegan == nil { _ = turn(clock()) }
    }

    private func admit(_ call: any PacedCall, _ now: NIODeadline) {
        underWay += 1
        guard call.goAhead() else { return underWay -= 1 }
        crest = max(crest, underWay)
        lastBegin = now
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
        window.noteTurn(nanoseconds: (clock() - began).nanoseconds, underWay: crest)
        release()
    }

    private func release() {
        guard !waiting.isEmpty else { return }
        isReleasing = true
        defer { isReleasing = false }
        let began = clock()
        var now = began
        // What begins here is part of a turn, too.
        while underWay < window.size, (now - began).nanoseconds < CallWindow.longTurn / 2, let call = waiting.popFirst() {
            admit(call, now)
            now = clock()
        }
        planLook()
    }

    /// Sees to it that those who wait are looked at again even if no call ends.
    private func planLook() {
        guard !waiting.isEmpty, !isLookPlanned else { return }
        isLookPlanned = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.look) { [self] in
            isLookPlanned = false
            let now = clock()
            if now - lastBegin >= Self.patience, let call = waiting.popFirst() { admit(call, now) }
            release()
        }
    }
}
