import ArgumentParser
import Interlock
import InterlockCore
import Logging
import NIOPosix
import RedisClient

/// Measures locks through one coordinator in this process, without a sidecar.
struct LibraryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "library",
        abstract: "Measure lock cycles per second of a Swift program; each caller has its own lock.")

    @Option(help: ArgumentHelp("The URL of the Redis: redis://, rediss:// or unix://.", valueName: "url"))
    var redis: String

    @Option(help: "The number of tasks that acquire and release without a pause.")
    var callers = 64

    @Option(help: "How long to measure, after a warm-up of half a second.")
    var seconds = 5.0

    @Flag(help: "Run the callers on the coordinator's executor, which saves microseconds.")
    var near = false

    private static let warmUp = Duration.milliseconds(500)
    /// The TTL of the leases, which is so long that no lease expires here.
    private static let ttlMilliseconds: Int64 = 30_000

    func run() async throws {
        let coordinator = Coordinator(
            configuration: InterlockConfiguration(redis: try RedisConfiguration(url: redis), host: "benchmark"),
            eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
            logger: Logger(label: "benchmark") { StreamLogHandler.standardError(label: $0) })
        let locks = try (0..<callers).map { try ResourceName("caller-\($0)") }
        await coordinator.start()
        await coordinator.waitUntilReady()
        let begin = ContinuousClock.now + Self.warmUp
        let end = begin + .seconds(seconds)
        let cycles = try await withThrowingTaskGroup(of: Int.self) { group in
            for lock in locks {
                group.addTask(executorPreference: near ? coordinator.taskExecutor : nil) {
                    try await Self.cycles(of: lock, at: coordinator, from: begin, to: end)
                }
            }
            return try await group.reduce(0, +)
        }
        await coordinator.stop()
        try LibraryFigures(cycles: cycles, seconds: seconds).printLine()
    }

    /// Returns the number of times that one caller acquired and released its lock within the measured time.
    private static func cycles(
        of lock: ResourceName, at coordinator: Coordinator, from begin: ContinuousClock.Instant,
        to end: ContinuousClock.Instant
    ) async throws -> Int {
        var cycles = 0
        while true {
            guard
                let lease = try await coordinator.acquireLock(LockRequest(name: lock, ttlMilliseconds: ttlMilliseconds))
            else {
                throw BenchmarkFailure("the lock \(lock) is held by another client, but it has only one caller")
            }
            guard try await coordinator.releaseLock(lock, token: lease.token) else {
                throw BenchmarkFailure("the lease of \(lock) was lost before its release")
            }
            let now = ContinuousClock.now
            if now >= end { return cycles }
            if now >= begin { cycles += 1 }
        }
    }
}

/// The figures of `library`.
struct LibraryFigures: Figures {
    /// The number of times that a lock was acquired and released.
    var cycles: Int
    var seconds: Double
}
