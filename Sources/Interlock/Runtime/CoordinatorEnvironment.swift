internal import Glibc
internal import InterlockCore
package import Logging
package import NIOCore
package import RedisClient

/// The clocks, randomness and network of a coordinator. Tests replace them to become deterministic.
package struct CoordinatorEnvironment: Sendable {
    /// The event loop of the coordinator, its decisions and its Redis connections. Its `now` is the clock of timers and
    /// timeouts.
    package var eventLoop: any EventLoop
    /// The clock that measures leases. It is monotonic, and it advances while the machine is suspended.
    package var clock: TimeSource
    package var wallClock: WallClock
    /// The randomness of tokens and permits, which must be unpredictable, and of delays.
    package var random: RandomSource
    /// The dialer that opens connections to Redis.
    package var dialer: any RedisDialer
    package var logger: Logger
    /// The process ID that the fleet sees.
    package var processID: Int32

    /// Creates an environment, by default with the system's clocks and randomness and the network.
    package init(
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

    /// The parts that a connection to Redis needs.
    var redis: RedisEnvironment {
        RedisEnvironment(eventLoop: eventLoop, dialer: dialer, random: random, logger: logger)
    }
}

/// Runs tasks on an event loop. The tasks must not block.
package final class EventLoopTaskExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    /// Creates an executor that enqueues on `eventLoop`.
    package init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    /// Runs a job on the event loop, after the jobs already enqueued there.
    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        eventLoop.execute { job.runSynchronously(on: executor) }
    }
}
