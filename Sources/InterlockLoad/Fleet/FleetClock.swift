internal import Glibc
internal import InterlockCore
internal import InterlockProcesses
internal import RedisClient

/// The wall clock of a fleet's Redis, moved by libfaketime.
actor FleetClock {
    nonisolated let environment: [String: String]
    private let clock: FakeClock
    /// The difference from the true time, in seconds.
    private var offset = 0

    /// The time allowed for a jump. libfaketime re-reads its file every second or two.
    private static let timeout = Duration.seconds(20)
    /// The tolerance of the comparison in seconds, in addition to the time between two reads of the true clock.
    private static let tolerance = 0.1

    /// - Throws: `FakeClockError` if libfaketime is not installed.
    init(folder: String) async throws {
        clock = try await FakeClock(file: "\(folder)/clock", isUncached: false)
        environment = clock.environment
    }

    /// Moves the clock, and waits until Redis shows the new time.
    /// - Throws: `FleetError` if Redis does not show it in time; the client's error if Redis cannot be reached.
    func jump(bySeconds seconds: Int, of redis: RedisConfiguration) async throws {
        offset += seconds
        try clock.setOffset(seconds: offset)
        let client = RedisClient(configuration: redis)
        do {
            try await attempt {
                try await client.connect()
                try await eventually(within: Self.timeout, "the clock of Redis is off by \(offset) s") {
                    let before = Self.trueTime()
                    let shown = try await Self.time(of: client)
                    let after = Self.trueTime()
                    let range = before + Double(offset) - Self.tolerance...after + Double(offset) + Self.tolerance
                    return range.contains(shown)
                }
            } finally: {
                await client.close()
            }
        } catch let error as DeadlineExceeded {
            throw FleetError(error.description)
        }
    }

    private static func trueTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private static func time(of client: RedisClient) async throws -> Double {
        let reply = try await client.send(AnyCommand(["TIME"]))
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].integer, let microseconds = parts[1].integer
        else {
            throw FleetError("unexpected reply to TIME from Redis: \(reply)")
        }
        return Double(seconds) + Double(microseconds) / 1e6
    }
}
