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
        logger: Logger = Logger(label: "hiredis")
    ) {
        self.eventLoop = eventLoop
        self.dialer = dialer
        self.random = random
        self.logger = logger
    }
}

/// Opens connections to Redis.
package protocol RedisDialer: Sendable {
    /// Opens a connection, TLS included; nobody has logged in on it yet.
    /// - Returns: an active channel of bytes on `eventLoop`, before the connect timeout of `configuration` is over.
    func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel>
}

/// A source of random numbers that can be handed around.
package struct RandomSource: RandomNumberGenerator, Sendable {
    private let fillBytes: @Sendable (UnsafeMutableRawBufferPointer) -> Void

    /// - Parameter fill: puts evenly distributed bits into every byte of the buffer.
    package init(fill: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void) {
        fillBytes = fill
    }

    /// The kernel's generator, whose numbers nobody can guess.
    package static let system = RandomSource { bytes in
        var filled = 0
        while filled < bytes.count {
            let count = min(bytes.count - filled, 256)
            let result = getentropy(bytes.baseAddress.map { $0 + filled }, count)
            // It fails only for a bad address or more than 256 bytes; neither can be.
            precondition(result == 0, "the kernel's random generator failed")
            filled += count
        }
    }

    /// Fills a whole block at once, which costs the system's source few calls.
    package func fill(_ block: inout [UInt64]) {
        block.withUnsafeMutableBytes { fillBytes($0) }
    }

    package func next() -> UInt64 {
        var bits: UInt64 = 0
        withUnsafeMutableBytes(of: &bits) { fillBytes($0) }
        return bits
    }
}
