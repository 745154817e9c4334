internal import Glibc
internal import InterlockCore
package import Logging
package import NIOCore
package import RedisClient

/// Everything around a coordinator that is not logic: whoever hands over another environment decides what happens.
package struct CoordinatorEnvironment: Sendable {
    /// Where the coordinator, its decisions and its Redis connections live. Its `now` is the clock of timers and timeouts.
    package var eventLoop: any EventLoop
    /// Measures leases: monotonic, and it counts the time that the machine was suspended.
    package var clock: TimeSource
    /// What people's clocks show.
    package var wallClock: WallClock
    /// For tokens and permits, which nobody may guess, and for whatever is spread at random.
    package var random: RandomSource
    /// How a connection to Redis is opened.
    package var dialer: any RedisDialer
    package var logger: Logger
    /// Shown to the fleet.
    package var processID: Int32

    /// By default the real ones: the system's clocks and randomness, and the network.
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

    /// What a connection to Redis needs of it.
    var redis: RedisEnvironment {
        RedisEnvironment(eventLoop: eventLoop, dialer: dialer, random: random, logger: logger)
    }
}

/// Runs tasks on an event loop, where what they wait for arrives. They must not block.
package final class EventLoopTaskExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    /// An executor that enqueues on `eventLoop`.
    package init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    /// Runs a job on the event loop, after what is enqueued there.
    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        eventLoop.execute { job.runSynchronously(on: executor) }
    }
}
