internal import FoundationEssentials
internal import Glibc
internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge
internal import Logging
internal import NIOCore

/// Follows the breaker events of one sidecar, and queries its status. Confined to the run's event loop.
///
/// A sidecar applies a change of a breaker before it publishes the event, so a change is in effect when the event
/// arrives.
final class SidecarWatch {
    /// The part of a sidecar's status that a run measures.
    struct Status {
        /// The number of commands that the sidecar has sent to Redis.
        var redisCommandCount: Int
        var processID: Int32
    }

    /// The assumed maximum delay of an event. It is used if the Redis clock differs from this machine's clock, because
    /// the time at which the event was sent is then unknown.
    private static let maximumEventDelayMilliseconds: Int64 = 300

    let sidecar: Int
    private let recorder: HistoryRecorder
    private let services: [String: Int]
    private let trustsWallClock: Bool
    private let subscription: SidecarSubscription
    private let connection: SidecarConnection
    private var isFollowing = false
    /// A closure that is called when `isWatching` may have become `true`.
    var onWatching: (() -> Void)?

    init(_ endpoint: SidecarEndpoint, plan: LoadPlan, recorder: HistoryRecorder, eventLoop: any EventLoop, logger: Logger) {
        sidecar = endpoint.number
        self.recorder = recorder
        trustsWallClock = plan.trustsWallClock
        services = Dictionary(
            plan.services.rules.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
        subscription = SidecarSubscription(
            endpoint.resp, channel: plan.eventChannel, eventLoop: eventLoop, logger: logger)
        connection = SidecarConnection(endpoint.resp, eventLoop: eventLoop, logger: logger)
        subscription.onFollowing = { [unowned self] in
            isFollowing = true
            onWatching?()
        }
        subscription.onDown = { [unowned self] _ in isFollowing = false }
        subscription.onEvent = { [unowned self] in eventReceived($0) }
        connection.onUp = { [unowned self] in onWatching?() }
    }

    /// Whether the sidecar has confirmed the subscription and can be queried.
    var isWatching: Bool { isFollowing && connection.isUp }

    func start() {
        subscription.start()
        connection.start()
    }

    func close() -> [EventLoopFuture<Void>] {
        [subscription.close(), connection.close()]
    }

    /// Fetches the number of commands that the sidecar has sent to Redis, and its process ID. Calls `completion` with
    /// `nil` if the sidecar does not answer in time or does not report both.
    func fetchStatus(timeout: TimeAmount, completion: @escaping (Status?) -> Void) {
        connection.send(StatusCalls.Report(), timeout: timeout) { result in
            guard let report = try? result.get(), let commandCount = report.redis.commandsSent,
                let processID = report.processID
            else {
                return completion(nil)
            }
            completion(Status(redisCommandCount: Int(commandCount), processID: processID))
        }
    }

    private func eventReceived(_ payload: [UInt8]) {
        guard let notice = BreakerNotice(json: payload), let service = services[notice.service], let state = notice.state else {
            return
        }
        let now = recorder.now()
        let until =
            trustsWallClock
            ? notice.endMilliseconds.map { Self.instant(ofEpochMilliseconds: $0, now) }
            : notice.remainingMilliseconds.map { now.advanced(byMilliseconds: $0 - Self.maximumEventDelayMilliseconds) }
        recorder.record(
            .breakerSeen(sidecar: sidecar, service: service, state: state, generation: notice.generation, until: until))
    }

    /// Converts a time of the wall clock to the clock of the history, on which it is now `now`.
    private static func instant(ofEpochMilliseconds milliseconds: Int64, _ now: Instant) -> Instant {
        var wallTime = timespec()
        clock_gettime(CLOCK_REALTIME, &wallTime)
        let wallNanoseconds = Int64(wallTime.tv_sec) * 1_000_000_000 + Int64(wallTime.tv_nsec)
        let (targetNanoseconds, isTargetOverflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
        guard !isTargetOverflow else { return .distantFuture }
        let (nanoseconds, isOverflow) = now.nanoseconds.addingReportingOverflow(targetNanoseconds - wallNanoseconds)
        return isOverflow ? .distantFuture : Instant(nanoseconds: nanoseconds)
    }
}

/// A breaker event, reduced to the fields that the checks need.
struct BreakerNotice: Decodable {
    var type: String
    var service: String
    private var rawState: String
    private var untilMilliseconds: Int64?
    var generation: Int64
    private var atMilliseconds: Int64?
    private var forced: String?
    private var forcedUntilMilliseconds: Int64?

    private enum CodingKeys: String, CodingKey {
        case type, service, generation, forced
        case rawState = "state"
        case untilMilliseconds = "until_ms"
        case atMilliseconds = "at_ms"
        case forcedUntilMilliseconds = "forced_until_ms"
    }

    /// Decodes an event. Returns `nil` if the event has another type or is malformed.
    init?(json: [UInt8]) {
        guard let notice = try? JSONDecoder().decode(BreakerNotice.self, from: Data(json)), notice.type == "breaker" else {
            return nil
        }
        self = notice
    }

    /// The state that sidecars apply: a forced state overrides the breaker's own.
    var state: BreakerSnapshot.State? {
        switch forced.flatMap(BreakerSnapshot.Forced.init) {
        case .open: .open
        case .closed, .disabled: .closed
        case nil: BreakerSnapshot.State(rawValue: rawState)
        }
    }

    /// The end of the state that sidecars apply, as Unix time in milliseconds; `nil` if the state has no set end.
    var endMilliseconds: Int64? {
        let milliseconds = (forced ?? "").isEmpty ? untilMilliseconds : forcedUntilMilliseconds
        return milliseconds == 0 ? nil : milliseconds
    }

    /// The time from the event to the end of the state, by the Redis clock; `nil` if the state has no set end.
    var remainingMilliseconds: Int64? {
        guard let endMilliseconds, let atMilliseconds else { return nil }
        return max(0, endMilliseconds &- atMilliseconds)
    }
}
