internal import Glibc
public import Logging
public import NIOCore

/// Everything around a connection to Redis that is not logic: the event loop with its clock, how a connection is dialled,
/// randomness, and the log. Who hands over another environment decides what happens.
public struct RedisEnvironment: Sendable {
    /// Where the connection lives. Its `now` is the clock of all timeouts.
    public var eventLoop: any EventLoop
    public var dialer: any RedisDialer
    /// Spreads the attempts of a fleet to connect again.
    public var random: RandomSource
    public var logger: Logger

    /// By default the real ones: the network, and the system's randomness.
    public init(
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
public protocol RedisDialer: Sendable {
    /// Opens a connection, TLS included; nobody has logged in on it yet.
    /// - Returns: an active channel of bytes on `eventLoop`, before the connect timeout of `configuration` is over.
    func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel>
}

/// A source of random numbers that can be handed around.
public struct RandomSource: RandomNumberGenerator, Sendable {
    private let fillBytes: @Sendable (UnsafeMutableRawBufferPointer) -> Void

    /// - Parameter fill: puts evenly distributed bits into every byte of the buffer.
    public init(fill: @escaping @Sendable (UnsafeMutableRawBufferPointer) -> Void) {
        fillBytes = fill
    }

    /// The kernel's generator, whose numbers nobody can guess.
    public static let system = RandomSource { bytes in
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
    public func fill(_ block: inout [UInt64]) {
        block.withUnsafeMutableBytes { fillBytes($0) }
    }

    public func next() -> UInt64 {
        var bits: UInt64 = 0
        withUnsafeMutableBytes(of: &bits) { fillBytes($0) }
        return bits
    }
}
