internal import Glibc
internal import InterlockCore
internal import InterlockProcesses
internal import RedisClient

/// The wall clock of a fleet's Redis, moved by libfaketime.
actor FleetClock {
    nonisolated let environment: [String: String]
    private let clock: SteeredClock
    /// How many seconds it shows beside the true time.
    private var offset = 0

    /// libfaketime looks into its file every second or two.
    private static let timeout = Duration.seconds(20)
    /// How much it may differ from what it should show, in seconds: it is read between two looks at the true one.
    private static let tolerance = 0.1

    /// - Throws: `SteeredClockError` when libfaketime is not installed.
    init(folder: String) async throws {
        clock = try await SteeredClock(file: "\(folder)/clock", isReadEachTime: false)
        environment = clock.environment
    }

    /// Moves it, and waits until Redis shows it.
    /// - Throws: `FleetError` when Redis does not; what the client throws when Redis cannot be asked.
    func jump(bySeconds seconds: Int, of redis: RedisConfiguration) async throws {
        offset += seconds
        try clock.show(secondsBesideTrueTime: offset)
        let client = RedisClient(configuration: redis)
        do {
            try await attempt {
                try await client.connect()
                try await eventually(within: Self.timeout, "Redis' clock shows \(offset) s beside the true time") {
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
            throw FleetError("Redis answers TIME with \(reply)")
        }
        return Double(seconds) + Double(microseconds) / 1e6
    }
}
