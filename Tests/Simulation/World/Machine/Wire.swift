import InterlockCore
import InterlockJudge
import NIOCore

/// The network between two hosts. Faults change it.
final class Path {
    /// The range of a message's delay.
    var delay: ClosedRange<Nanoseconds>
    /// Whether the path holds back messages. It delivers them when this becomes `false`.
    var isBlackHole = false { didSet { if !isBlackHole { release() } } }
    /// Whether the path refuses new connections.
    var isRefusing = false
    /// The probability that a message arrives in pieces.
    var splitProbability = 0.0
    private var random: SeededRandom
    private var heldBack: [() -> Void] = []
    private(set) var wires: [Wire] = []

    init(delay: ClosedRange<Nanoseconds>, random: SeededRandom) {
        self.delay = delay
        self.random = random
    }

    func drawDelay() -> Nanoseconds { Int64.random(in: delay, using: &random) }

    /// Returns the end offsets of a message's pieces.
    func pieceEnds(forLength length: Int) -> [Int] {
        guard length > 1, splitProbability > 0, random.happens(splitProbability) else { return [length] }
        let middle = Int.random(in: 1..<length, using: &random)
        return [middle, length]
    }

    /// Returns the offset within a message at which a cut connection ends.
    func cutPosition(in length: Int) -> Int { Int.random(in: 0...length, using: &random) }

    /// Runs `arrival` now, or once messages pass again.
    func deliver(_ arrival: @escaping () -> Void) {
        if isBlackHole { heldBack.append(arrival) } else { arrival() }
    }

    private func release() {
        let arrivals = heldBack
        heldBack = []
        for arrival in arrivals { arrival() }
    }

    func wireOpened(_ wire: Wire) { wires.append(wire) }
    func wireClosed(_ wire: Wire) { wires.removeAll { $0 === wire } }

    /// Cuts all connections. Messages in flight arrive in part or not at all.
    func cutAll() {
        for wire in wires { wire.cut() }
    }
}

/// One connection over a path. Bytes arrive in order, after a delay, and perhaps in pieces.
final class Wire {
    /// One end of the connection, at which messages arrive.
    final class End {
        /// Receives the bytes that arrive. The end buffers bytes that arrive before this is set.
        var onBytes: ((ByteBuffer) -> Void)? { didSet { deliverBuffered() } }
        private var buffered: [ByteBuffer] = []
        /// Runs after the last bytes have arrived.
        var onEnd: () -> Void = {}
        /// Whether this end has received its last bytes.
        fileprivate(set) var hasEnded = false
        fileprivate var lastArrival: Nanoseconds = 0
        /// The number of messages in flight to this end.
        fileprivate var inFlightCount = 0

        fileprivate func receive(_ bytes: ByteBuffer) {
            if let onBytes { onBytes(bytes) } else { buffered.append(bytes) }
        }

        private func deliverBuffered() {
            guard let onBytes else { return }
            let bytes = buffered
            buffered = []
            for part in bytes { onBytes(part) }
        }
    }

    private let timeline: WorldTimeline
    private let path: Path
    let near = End()
    let far = End()
    private(set) var isCut = false
    /// Whether both ends have received their last bytes.
    var hasEnded: Bool { near.hasEnded && far.hasEnded }

    init(timeline: WorldTimeline, path: Path) {
        self.timeline = timeline
        self.path = path
        path.wireOpened(self)
    }

    /// Sends bytes to this end.
    /// - Parameter isIndivisible: whether the bytes arrive in one piece on every path.
    func send(_ bytes: ByteBuffer, to end: End, isIndivisible: Bool = false) {
        guard !isCut, bytes.readableBytes > 0 else { return }
        var start = 0
        for piece in isIndivisible ? [bytes.readableBytes] : path.pieceEnds(forLength: bytes.readableBytes) {
            let slice = bytes.getSlice(at: bytes.readerIndex + start, length: piece - start) ?? bytes
            start = piece
            schedule(at: end) { [self] in
                // If the wire was cut meanwhile, part of the message may arrive.
                let arrived =
                    isCut ? slice.getSlice(at: slice.readerIndex, length: path.cutPosition(in: slice.readableBytes)) : slice
                if let arrived, arrived.readableBytes > 0 { end.receive(arrived) }
                if isCut { finish(end) }
            }
        }
    }

    /// Closes the connection for the peer of `end`. `end` ends once it has received everything that was sent before.
    func close(to end: End) {
        guard !isCut else { return }
        schedule(at: end) { [self] in finish(end) }
        path.wireClosed(self)
    }

    /// Closes both ends. Messages in flight are lost, except for part of the next one to each end.
    func cut() {
        guard !isCut else { return }
        isCut = true
        path.wireClosed(self)
        for end in [near, far] where end.inFlightCount == 0 {
            timeline.schedule(in: path.drawDelay()) { [self] in finish(end) }
        }
    }

    private func schedule(at end: End, _ arrival: @escaping () -> Void) {
        end.inFlightCount += 1
        let arrivalTime = max(end.lastArrival, timeline.now + path.drawDelay())
        end.lastArrival = arrivalTime
        timeline.schedule(at: arrivalTime) { [self] in
            path.deliver {
                end.inFlightCount -= 1
                guard !end.hasEnded else { return }
                arrival()
            }
        }
    }

    private func finish(_ end: End) {
        guard !end.hasEnded else { return }
        end.hasEnded = true
        end.onEnd()
    }
}
