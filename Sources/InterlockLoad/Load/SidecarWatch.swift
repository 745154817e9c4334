internal import FoundationEssentials
internal import Glibc
internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge
internal import Logging
internal import NIOCore

/// Watches one sidecar: its breaker events and its status. Confined to the run's event loop.
///
/// A sidecar applies a change of a breaker before it publishes the change, so a change seen here is already in effect.
final class SidecarWatch {
    /// The counters and the process ID that a sidecar reports.
    struct Counts {
        var redisCommands: Int
        var process: Int32
    }

    /// The assumed maximum delay of an event, in milliseconds. Used if the Redis clock differs from this machine's,
    /// because the time of sending is then unknown.
    private static let maximumEventDelay: Int64 = 300

    let sidecar: Int
    private let recorder: HistoryRecorder
    private let services: [String: Int]
    private let trustsWallClock: Bool
    private let subscription: SidecarSubscription
    private let connection: SidecarConnection
    private var isFollowing = false
    /// Called when `isWatching` may have become `true`.
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
        subscription.onEvent = { [unowned self] in received($0) }
        connection.onUp = { [unowned self] in onWatching?() }
    }

    var isWatching: Bool { isFollowing && connection.isUp }

    func start() {
        subscription.start()
        connection.start()
    }

    func close() -> [EventLoopFuture<Void>] {
        [subscription.close(), connection.close()]
    }

    /// Fetches the number of commands that the sidecar has sent to Redis, and its process ID. Passes `nil` to
    /// `completion` if the sidecar does not answer in time or reports neither.
    func count(timeout: TimeAmount, completion: @escaping (Counts?) -> Void) {
        connection.send(StatusCalls.Report(), timeout: timeout) { result in
            guard let status = try? result.get(), let commands = status.redis.commandsSent, let process = status.processID else {
                return completion(nil)
            }
            completion(Counts(redisCommands: Int(commands), process: process))
        }
    }

    private func received(_ payload: [UInt8]) {
        guard let notice = BreakerNotice(json: payload), let service = services[notice.service], let state = notice.state else {
            return
        }
        let now = recorder.now()
        let until =
            trustsWallClock
            ? notice.until.map { Self.instant(ofEpochMilliseconds: $0, now) }
            : notice.remaining.map { now.advanced(byMilliseconds: $0 - Self.maximumEventDelay) }
        recorder.record(
            .breakerSeen(sidecar: sidecar, service: service, state: state, generation: notice.generation, until: until))
    }

    private static func instant(ofEpochMilliseconds milliseconds: Int64, _ now: Instant) -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        let wall = Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
        let (target, isOverflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
        guard !isOverflow else { return .distantFuture }
        let (instant, overflows) = now.nanoseconds.addingReportingOverflow(target - wall)
        return overflows ? .distantFuture : Instant(nanoseconds: instant)
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

    /// Decodes an event; `nil` if it has another type or cannot be decoded.
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

    /// The end of the state as Unix time in milliseconds; `nil` if it does not end by itself.
    var until: Int64? {
        let until = (forced ?? "").isEmpty ? untilMilliseconds : forcedUntilMilliseconds
        return until == 0 ? nil : until
    }

    /// The remaining time of the state at the event, in milliseconds by the Redis clock; `nil` if it does not end by
    /// itself.
    var remaining: Int64? {
        guard let until, let atMilliseconds else { return nil }
        return max(0, until &- atMilliseconds)
    }
}
