internal import DequeModule
internal import InterlockCore
internal import NIOCore

/// The bytes in transit in one direction of a connection, with the times at which they may pass.
struct FaultPipe {
    /// The next action of the stream.
    enum Step: Equatable {
        case forward(ByteBuffer)
        /// The source has ended, and all its bytes were forwarded.
        case end
        case wait(until: NIODeadline)
        /// Wait for more bytes or a change of the flow.
        case idle
    }

    private struct Item {
        /// The bytes; `nil` marks the end.
        var bytes: ByteBuffer?
        var due: NIODeadline
    }

    /// The number of buffered bytes at which reading from the source stops. The buffer may grow beyond it: if the
    /// source closes, the bytes that the kernel has already received still arrive.
    private static let maximumSize = 1 << 20

    private var items = Deque<Item>()
    /// The number of buffered bytes.
    private var size = 0
    private var hasEnded = false
    private var flow: FaultFlow
    private var random: SeededRandom
    /// The earliest time for the next bytes of a throttled flow.
    private var nextSliceTime = NIODeadline.uptimeNanoseconds(0)

    init(flow: FaultFlow, random: SeededRandom) {
        self.flow = flow
        self.random = random
    }

    /// Whether to read from the source.
    var wantsMore: Bool { flow != .blocked && size < Self.maximumSize && !hasEnded }

    mutating func take(_ bytes: ByteBuffer, at now: NIODeadline) {
        guard !hasEnded, bytes.readableBytes > 0 else { return }
        size += bytes.readableBytes
        items.append(Item(bytes: bytes, due: due(at: now)))
    }

    mutating func end(at now: NIODeadline) {
        guard !hasEnded else { return }
        hasEnded = true
        items.append(Item(bytes: nil, due: due(at: now)))
    }

    mutating func change(to flow: FaultFlow) {
        self.flow = flow
    }

    /// Returns the next action, and assumes that the caller carries it out.
    mutating func step(at now: NIODeadline) -> Step {
        guard flow != .blocked, let first = items.first else { return .idle }
        switch flow {
        case .delayed where first.due > now:
            return .wait(until: first.due)
        case .throttled where nextSliceTime > now:
            return .wait(until: nextSliceTime)
        case .throttled(let length, let pause):
            guard var bytes = first.bytes, let slice = bytes.readSlice(length: min(max(1, length), bytes.readableBytes)) else {
                break
            }
            nextSliceTime = now + TimeAmount(pause)
            size -= slice.readableBytes
            if bytes.readableBytes > 0 { items[0].bytes = bytes } else { items.removeFirst() }
            return .forward(slice)
        case .free, .delayed, .blocked:
            break
        }
        items.removeFirst()
        guard let bytes = first.bytes else { return .end }
        size -= bytes.readableBytes
        return .forward(bytes)
    }

    /// Returns the due time of new bytes, which is never before the due time of earlier bytes.
    private mutating func due(at now: NIODeadline) -> NIODeadline {
        guard case .delayed(let fixed, let jitter) = flow else { return now }
        let delayed = now + TimeAmount(fixed + jitter * random.unit())
        return items.last.map { max($0.due, delayed) } ?? delayed
    }
}

/// One direction of a connection, which carries out the steps of its `FaultPipe`. Confined to the event loop of its
/// channels.
final class FaultStream {
    private let source: any Channel
    /// The destination; `nil` before `connect(to:)`.
    private var sink: (any Channel)?
    private var pipe: FaultPipe
    private var timer: Scheduled<Void>?
    /// Whether the stream has ended, because the sink has received the end or is closed. Later bytes are discarded.
    private(set) var isFinished = false
    private var hasSourceEnded = false
    /// Called once, when `isFinished` becomes `true`.
    var onFinish: () -> Void = {}

    init(from source: any Channel, pipe: FaultPipe) {
        self.source = source
        self.pipe = pipe
    }

    func connect(to sink: any Channel) {
        self.sink = sink
        run()
    }

    func received(_ bytes: ByteBuffer) {
        guard !isFinished else { return }
        pipe.take(bytes, at: .now())
        run()
    }

    /// Handles the end of the source's output.
    func sourceEnded() {
        hasSourceEnded = true
        pipe.end(at: .now())
        run()
    }

    func change(to flow: FaultFlow) {
        pipe.change(to: flow)
        run()
    }

    /// Ends the stream and discards the remaining bytes.
    func abort() {
        guard !isFinished else { return }
        isFinished = true
        timer?.cancel()
        readIfWanted()
        onFinish()
    }

    /// Closes the output to the sink, and discards the remaining bytes.
    func closeSink() {
        sink?.close(mode: .output, promise: nil)
        abort()
    }

    func readIfWanted() {
        guard source.isActive, !hasSourceEnded, isFinished || pipe.wantsMore else { return }
        source.read()
    }

    /// Forwards all bytes that may pass now, and schedules the rest.
    func run() {
        timer?.cancel()
        timer = nil
        while !isFinished, let sink, sink.isActive, sink.isWritable {
            switch pipe.step(at: .now()) {
            case .forward(let bytes):
                sink.writeAndFlush(bytes, promise: nil)
            case .end:
                closeSink()
                return
            case .wait(let deadline):
                timer = source.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in
                    self?.run()
                }
                readIfWanted()
                return
            case .idle:
                readIfWanted()
                return
            }
        }
        readIfWanted()
    }
}
