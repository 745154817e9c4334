internal import Glibc
package import Logging
package import NIOCore

/// The I/O of a connection to Redis: the event loop with its clock, the dialer, randomness, and the log. Tests pass
/// another environment to control it.
package struct RedisEnvironment: Sendable {
    /// The event loop of the connection. Its `now` is the clock of all timeouts.
    package var eventLoop: any EventLoop
    package var dialer: any RedisDialer
    /// The randomness that spreads the reconnection attempts of a fleet.
    package var random: RandomSource
    package var logger: Logger

    /// Creates an environment, by default with the network and the system's randomness.
    package init(
        eventLoop: any EventLoop, dialer: any RedisDialer = NetworkDialer(), random: RandomSource = .system,
        logger: Logger = Logger(label: "interlock.redis")
    ) {
        self.eventLoop = eventLoop
        self.dialer = dialer
        self.random = random
        self.logger = logger
    }
}
