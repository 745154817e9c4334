import NIOCore

/// A process's end of a connection: a channel whose bytes go over a simulated wire.
///
/// NIO's test channels need loops that are not executors, and an actor cannot be confined to those.
final class SimulatedChannel: Channel, ChannelCore, @unchecked Sendable {
    // Unchecked: safe because the channel is confined to its process, and a world runs on one thread.

    let eventLoop: any EventLoop
    let allocator = ByteBufferAllocator()
    private let closePromise: EventLoopPromise<Void>
    private lazy var handlers = ChannelPipeline(channel: self)
    private var unflushed: [(data: ByteBuffer, promise: EventLoopPromise<Void>?)] = []
    /// The bytes that have arrived but are not read yet.
    private var unread: [ByteBuffer] = []
    private var isReadRequested = false
    private var isAtEnd = false
    private(set) var isActive = false

    /// Receives what the process sends.
    var onSend: (ByteBuffer) -> Void = { _ in }
    /// Runs when the process closes its end.
    var onClose: () -> Void = {}

    init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        closePromise = eventLoop.makePromise()
    }

    /// Creates a process's end of a connection: the near end of `wire`.
    convenience init(over wire: Wire, on eventLoop: any EventLoop) {
        self.init(eventLoop: eventLoop)
        // The process receives bytes only while it runs.
        wire.near.onBytes = { bytes in eventLoop.execute { self.receive(bytes) } }
        wire.near.onEnd = { eventLoop.execute { self.receiveEnd() } }
        onSend = { wire.send($0, to: wire.far) }
        onClose = {
            wire.close(to: wire.far)
            // The closures retain the channel.
            wire.near.onBytes = { _ in }
            wire.near.onEnd = {}
        }
    }

    /// Marks the connection as open. The process must call this before it receives anything.
    func activate() {
        isActive = true
        pipeline.fireChannelRegistered()
        pipeline.fireChannelActive()
        pipeline.read()
    }

    // MARK: Called by the wire, in the process

    /// Receives bytes from the peer.
    func receive(_ bytes: ByteBuffer) {
        guard isActive else { return }
        unread.append(bytes)
        deliver()
    }

    /// Handles the end of the peer's bytes, once the peer has closed its end.
    func receiveEnd() {
        guard isActive else { return }
        isAtEnd = true
        deliver()
    }

    private func deliver() {
        while isActive, isReadRequested, !unread.isEmpty {
            isReadRequested = false
            let bytes = unread.removeFirst()
            pipeline.fireChannelRead(bytes)
            pipeline.fireChannelReadComplete()
            // Imitates auto-read.
            if isActive { pipeline.read() }
        }
        if isActive, isAtEnd, unread.isEmpty { close0(error: ChannelError.eof, mode: .all, promise: nil) }
    }

    // MARK: Channel

    var pipeline: ChannelPipeline { handlers }
    var closeFuture: EventLoopFuture<Void> { closePromise.futureResult }
    var localAddress: SocketAddress? { nil }
    var remoteAddress: SocketAddress? { nil }
    var parent: (any Channel)? { nil }
    var isWritable: Bool { true }
    var _channelCore: any ChannelCore { self }

    var syncOptions: (any NIOSynchronousChannelOptions)? { Options() }

    func setOption<Option: ChannelOption>(_ option: Option, value: Option.Value) -> EventLoopFuture<Void> {
        eventLoop.makeSucceededVoidFuture()
    }

    func getOption<Option: ChannelOption>(_ option: Option) -> EventLoopFuture<Option.Value> {
        eventLoop.makeCompletedFuture(Result { try Options().getOption(option) })
    }

    /// The options of a simulated socket, which are the same for all channels.
    private struct Options: NIOSynchronousChannelOptions {
        func setOption<Option: ChannelOption>(_ option: Option, value: Option.Value) throws {}

        func getOption<Option: ChannelOption>(_ option: Option) throws -> Option.Value {
            guard option is ChannelOptions.Types.AutoReadOption, let value = true as? Option.Value else {
                throw ChannelError.operationUnsupported
            }
            return value
        }
    }

    // MARK: ChannelCore

    func write0(_ data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard isActive else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        unflushed.append((unwrapData(data, as: ByteBuffer.self), promise))
    }

    func flush0() {
        guard !unflushed.isEmpty else { return }
        let writes = unflushed
        unflushed = []
        var bytes = writes[0].data
        for write in writes.dropFirst() {
            var data = write.data
            bytes.writeBuffer(&data)
        }
        onSend(bytes)
        for write in writes { write.promise?.succeed() }
    }

    func read0() {
        isReadRequested = true
        guard !unread.isEmpty || isAtEnd else { return }
        // Delivers later, because the caller does not expect a reentrant delivery.
        eventLoop.execute { self.deliver() }
    }

    func close0(error: any Error, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        guard isActive else {
            promise?.fail(ChannelError.alreadyClosed)
            return
        }
        isActive = false
        onClose()
        let lostWrites = unflushed
        unflushed = []
        for write in lostWrites { write.promise?.fail(ChannelError.ioOnClosedChannel) }
        promise?.succeed()
        pipeline.fireChannelInactive()
        pipeline.fireChannelUnregistered()
        eventLoop.execute {
            self.removeHandlers(pipeline: self.pipeline)
            self.closePromise.succeed()
        }
    }

    func channelRead0(_ data: NIOAny) {}
    func errorCaught0(error: any Error) {}

    func localAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
    func remoteAddress0() throws -> SocketAddress { throw ChannelError.operationUnsupported }
    func register0(promise: EventLoopPromise<Void>?) { promise?.fail(ChannelError.operationUnsupported) }
    func registerAlreadyConfigured0(promise: EventLoopPromise<Void>?) { promise?.fail(ChannelError.operationUnsupported) }
    func bind0(to: SocketAddress, promise: EventLoopPromise<Void>?) { promise?.fail(ChannelError.operationUnsupported) }
    func connect0(to: SocketAddress, promise: EventLoopPromise<Void>?) { promise?.fail(ChannelError.operationUnsupported) }
    func triggerUserOutboundEvent0(_ event: Any, promise: EventLoopPromise<Void>?) {
        promise?.fail(ChannelError.operationUnsupported)
    }
}
