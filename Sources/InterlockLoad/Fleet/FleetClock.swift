internal import Glibc
internal import InterlockCore
internal import InterlockProcesses
internal import RedisClient

/// The wall clock of a fleet's Redis, moved by libfaketime.
actor FleetClock {
    nonisolated let environment: [String: String]
    private let clock: FakeClock
    /// The difference from the true time.
    private var offsetSeconds = 0

    /// The time limit for a jump. libfaketime reads its file again every second or two.
    private static let timeout = Duration.seconds(20)
    /// The tolerance of the comparison, in addition to the time between the two reads of the true clock.
    private static let toleranceSeconds = 0.1

    /// Creates a clock without an offset.
    /// - Throws: `FakeClockError` if libfaketime is not installed.
    init(folder: String) async throws {
        clock = try await FakeClock(file: "\(folder)/clock", isUncached: false)
        environment = clock.environment
    }

    /// Moves the clock, and waits until Redis shows the new time.
    /// - Throws: `FleetError` if Redis does not show the new time within the limit; an error of the client if Redis is
    ///   unreachable.
    func jump(bySeconds seconds: Int, of redis: RedisConfiguration) async throws {
        offsetSeconds += seconds
        try clock.setOffset(seconds: offsetSeconds)
        let client = RedisClient(configuration: redis)
        do {
            try await withCleanup {
                try await client.connect()
                try await eventually(within: Self.timeout, "the clock of Redis is off by \(offsetSeconds) s") {
                    let before = Self.trueSeconds()
                    let redisSeconds = try await Self.seconds(of: client)
                    let after = Self.trueSeconds()
                    let earliest = before + Double(offsetSeconds) - Self.toleranceSeconds
                    let latest = after + Double(offsetSeconds) + Self.toleranceSeconds
                    return (earliest...latest).contains(redisSeconds)
                }
            } finally: {
                await client.close()
            }
        } catch let error as DeadlineExceeded {
            throw FleetError(error.description)
        }
    }

    /// Returns the true Unix time in seconds.
    private static func trueSeconds() -> Double {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
    }

    /// Returns the Unix time in seconds by the clock of Redis.
    private static func seconds(of client: RedisClient) async throws -> Double {
        let reply = try await client.send(AnyCommand(["TIME"]))
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].integer, let microseconds = parts[1].integer
        else {
            throw FleetError("unexpected reply to TIME from Redis: \(reply)")
        }
        return Double(seconds) + Double(microseconds) / 1e6
    }
}
