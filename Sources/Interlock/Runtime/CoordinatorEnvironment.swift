internal import Glibc
public import Hiredis
public import InterlockCore
public import Logging
public import NIOCore

/// Everything around a coordinator that is not logic: whoever hands over another environment decides what happens.
public struct CoordinatorEnvironment: Sendable {
    /// Where the coordinator, its decisions and its Redis connections live. Its `now` is the clock of timers and timeouts.
    public var eventLoop: any EventLoop
    /// Measures leases: monotonic, and it counts the time that the machine was suspended.
    public var clock: TimeSource
    /// What people's clocks show.
    public var wallClock: WallClock
    /// For tokens and permits, which nobody may guess, and for whatever is spread at random.
    public var random: RandomSource
    /// How a connection to Redis is opened.
    public var dialer: any RedisDialer
    public var logger: Logger
    /// Shown to the fleet.
    public var processID: Int32

    /// By default the real ones: the system's clocks and randomness, and the network.
    public init(
        eventLoop: any EventLoop, clock: TimeSource = .system, wallClock: WallClock = .system,
        random: RandomSource = .system, dialer: any RedisDialer = NetworkDialer(),
        logger: Logger = Logger(label: "interlock")
    ) {
        self.eventLoop = eventLoop
        self.clock = clock
        self.wallClock = wallClock
        self.random = random
        self.dialer = dialer
        self.logger = logger
        processID = getpid()
    }

    /// What a connection to Redis needs of it.
    var redis: RedisEnvironment {
        RedisEnvironment(eventLoop: eventLoop, dialer: dialer, random: random, logger: logger)
    }
}

/// Reads the clock that decisions are handed.
public struct TimeSource: Sendable {
    private let read: @Sendable () -> Instant

    public init(read: @escaping @Sendable () -> Instant) {
        self.read = read
    }

    /// The clock that `ContinuousClock` reads: monotonic, and it counts the time the machine was suspended.
    public static let system = TimeSource {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    public func now() -> Instant { read() }
}

/// Reads the clock that people read, which may jump: for what is shown to them, never for what is decided.
public struct WallClock: Sendable {
    private let read: @Sendable () -> Int64

    /// - Parameter read: milliseconds since 1970, UTC.
    public init(read: @escaping @Sendable () -> Int64) {
        self.read = read
    }

    /// This host's clock.
    public static let system = WallClock {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Milliseconds since 1970, UTC.
    public func milliseconds() -> Int64 { read() }
}

/// Runs tasks on an event loop, where what they wait for arrives. They must not block.
public final class EventLoopTaskExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    /// An executor that enqueues on `eventLoop`.
    public init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    /// Runs a job on the event loop, after what is enqueued there.
    public func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        eventLoop.execute { job.runSynchronously(on: executor) }
    }
}
