internal import DequeModule
internal import InterlockCore
internal import NIOCore

/// A call that begins when the pacer admits it.
protocol PacedCall: AnyObject {
    /// Whether the call still needs to be admitted.
    var isWanted: Bool { get }
    /// Called when the call is admitted. It begins now.
    func callAdmitted()
}

/// Admits the proxy's calls in the order of their arrival, and only as many at a time as keep the ticks of the event
/// loop short. Confined to that loop.
///
/// The pacer measures a tick from the first call that is admitted or ends in it. It admits a few calls every two
/// milliseconds, however busy the loop is and however many calls are in progress.
final class CallPacer {
    /// The interval at which a few waiting calls are admitted even if the window is full.
    private static let admissionInterval = TimeAmount.milliseconds(2)
    /// The maximum number of admission intervals that one tick makes up for.
    private static let maximumIntervals: Int64 = 16
    private static let recheckDelay = TimeAmount.microseconds(250)
    /// The maximum time per tick for admitting waiting calls.
    private static let admissionDuration = TimeAmount.nanoseconds(CallWindow.longTickNanoseconds / 2)

    private let eventLoop: any EventLoop
    private let clock: () -> NIODeadline
    private var window = CallWindow()
    private var waiting: Deque<any PacedCall> = []
    private var inFlightCount = 0
    /// The maximum number of concurrent calls in this tick.
    private var peakInFlightCount = 0
    /// The start of the current tick; `nil` until a call is admitted or ends in it.
    private var tickStartedAt: NIODeadline?
    private var lastAdmissionAt = NIODeadline.uptimeNanoseconds(0)
    private var isAdmittingWaitingCalls = false
    private var isCheckScheduled = false
    /// Whether no measured tick has finished since the check was scheduled.
    private var isQuiet = false

    init(eventLoop: any EventLoop, clock: (() -> NIODeadline)? = nil) {
        self.eventLoop = eventLoop
        self.clock = clock ?? { eventLoop.now }
    }

    /// Admits the call, now or later. The call must report its end once it was admitted.
    func admit(_ call: any PacedCall) {
        // Reentrant: the call just admitted ended immediately, and its client sent the next one, which must not
        // overtake waiting calls.
        guard !isAdmittingWaitingCalls else { return waiting.append(call) }
        let now = clock()
        let startedAt = measureTick(now)
        guard waiting.isEmpty, inFlightCount < window.size,
            (now - startedAt).nanoseconds <= CallWindow.longTickNanoseconds
        else {
            waiting.append(call)
            return scheduleCheck()
        }
        admitNow(call, now)
    }

    /// Records that a call in progress is over, or pauses before a retry.
    func callEnded() {
        inFlightCount -= 1
        if !isAdmittingWaitingCalls { _ = measureTick(clock()) }
    }

    private func admitNow(_ call: any PacedCall, _ now: NIODeadline) {
        inFlightCount += 1
        peakInFlightCount = max(peakInFlightCount, inFlightCount)
        lastAdmissionAt = now
        call.callAdmitted()
    }

    /// Starts to measure the current tick, unless that has happened already.
    /// - Returns: the start of the tick.
    private func measureTick(_ now: NIODeadline) -> NIODeadline {
        if let tickStartedAt { return tickStartedAt }
        tickStartedAt = now
        peakInFlightCount = inFlightCount
        // Runs after the tick has processed all events that it read.
        eventLoop.assumeIsolated().execute { [self] in tickEnded() }
        return now
    }

    private func tickEnded() {
        guard let startedAt = tickStartedAt else { return }
        tickStartedAt = nil
        isQuiet = false
        let now = clock()
        window.recordTick(nanoseconds: (now - startedAt).nanoseconds, inFlight: peakInFlightCount)
        // If no call was admitted for some time, some waiting calls are admitted although the window is full.
        let intervals = (now - lastAdmissionAt).nanoseconds / Self.admissionInterval.nanoseconds
        admitWaitingCalls(beyond: CallWindow.minimumSize * Int(min(intervals, Self.maximumIntervals)))
    }

    /// Admits waiting calls.
    /// - Parameter extraCount: the number of calls to admit even if the window is full.
    private func admitWaitingCalls(beyond extraCount: Int) {
        isAdmittingWaitingCalls = true
        let limit = max(window.size, inFlightCount + extraCount)
        let startedAt = clock()
        var now = startedAt
        while let call = waiting.first, inFlightCount < limit, now - startedAt < Self.admissionDuration {
            waiting.removeFirst()
            guard call.isWanted else { continue }
            admitNow(call, now)
            now = clock()
        }
        isAdmittingWaitingCalls = false
        scheduleCheck()
    }

    /// Schedules a check of the waiting calls. If no call is admitted or ends before it, the check counts as a short
    /// tick and widens the window, because the calls in progress are waiting for something other than this loop.
    private func scheduleCheck() {
        guard !waiting.isEmpty, !isCheckScheduled else { return }
        isCheckScheduled = true
        isQuiet = true
        eventLoop.assumeIsolated().scheduleTask(in: Self.recheckDelay) { [self] in
            isCheckScheduled = false
            if isQuiet { _ = measureTick(clock()) } else { scheduleCheck() }
        }
    }
}
