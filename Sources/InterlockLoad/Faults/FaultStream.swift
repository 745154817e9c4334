internal import NIOCore

/// One direction of a connection: carries out what its `FaultPipe` says. Confined to the event loop of its channels.
final class FaultStream {
    private let source: any Channel
    /// `nil`: not connected yet.
    private var sink: (any Channel)?
    private var pipe: FaultPipe
    private var timer: Scheduled<Void>?
    /// The sink has been told the end, or cannot be told any more: what still comes is read and dropped.
    private(set) var isOver = false
    private var hasEnded = false
    /// Called once, when `isOver` turns true.
    var onOver: () -> Void = {}

    init(from source: any Channel, pipe: FaultPipe) {
        self.source = source
        self.pipe = pipe
    }

    func connect(to sink: any Channel) {
        self.sink = sink
        run()
    }

    func received(_ bytes: ByteBuffer) {
        guard !isOver else { return }
        pipe.take(bytes, at: .now())
        run()
    }

    /// The source says nothing more.
    func sourceEnded() {
        hasEnded = true
        pipe.end(at: .now())
        run()
    }

    func change(to flow: FaultFlow) {
        pipe.change(to: flow)
        run()
    }

    /// The sink is gone, or is told the end before all has reached it.
    func giveUp() {
        guard !isOver else { return }
        isOver = true
        timer?.cancel()
        readIfWanted()
        onOver()
    }

    /// Tells the sink the end, with what has reached it.
    func cutOff() {
        sink?.close(mode: .output, promise: nil)
        giveUp()
    }

    func readIfWanted() {
        guard source.isActive, !hasEnded, isOver || pipe.wantsMore else { return }
        source.read()
    }

    func run() {
        timer?.cancel()
        timer = nil
        while !isOver, let sink, sink.isActive, sink.isWritable {
            switch pipe.step(at: .now()) {
            case .forward(let bytes):
                sink.writeAndFlush(bytes, promise: nil)
            case .end:
                cutOff()
                return
            case .wait(let due):
                timer = source.eventLoop.assumeIsolated().scheduleTask(deadline: due) { [weak self] in self?.run() }
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
