internal import Glibc
package import Logging
package import NIOCore

/// Everything around a connection to Redis that is not logic: the event loop with its clock, how a connection is dialled,
/// randomness, and the log. Who hands over another environment decides what happens.
package struct RedisEnvironment: Sendable {
    /// Where the connection lives. Its `now` is the clock of all timeouts.
    package var eventLoop: any EventLoop
    package var dialer: any RedisDialer
    /// Spreads the attempts of a fleet to connect again.
    package var random: RandomSource
    package var logger: Logger

    /// By default the real ones: the network, and the system's randomness.
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
