internal import Glibc
public import Hiredis
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
