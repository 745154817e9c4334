internal import InterlockJudge
internal import DequeModule
internal import NIOCore

/// What is on its way in one direction of a connection, and when it may go on.
struct FaultPipe {
    /// What is to be done now.
    enum Step: Equatable {
        case forward(ByteBuffer)
        /// The source has said its last word, and all before it has gone on.
        case end
        case wait(until: NIODeadline)
        /// Until something comes, or the flow changes.
        case idle
    }

    private struct Item {
        /// `nil`: the end.
        var bytes: ByteBuffer?
        var due: NIODeadline
    }

    /// From so many bytes on nothing more is read. What the kernel had taken from a source that has closed still comes.
    private static let capacity = 1 << 20

    private var items = Deque<Item>()
    private var size = 0
    private var hasEnded = false
    private var flow: FaultFlow
    private var random: SeededRandom
    /// When the next drop of a trickle may fall.
    private var nextDrop = NIODeadline.uptimeNanoseconds(0)

    init(flow: FaultFlow, random: SeededRandom) {
        self.flow = flow
        self.random = random
    }

    /// Whether the source is to be read.
    var wantsMore: Bool { flow != .held && size < Self.capacity && !hasEnded }

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

    mutating func step(at now: NIODeadline) -> Step {
        guard flow != .held, let first = items.first else { return .idle }
        switch flow {
        case .delayed where first.due > now:
            return .wait(until: first.due)
        case .trickling where nextDrop > now:
            return .wait(until: nextDrop)
        case .trickling(let length, let pause):
            guard var bytes = first.bytes, let drop = bytes.readSlice(length: min(max(1, length), bytes.readableBytes)) else {
                break
            }
            nextDrop = now + TimeAmount(pause)
            size -= drop.readableBytes
            if bytes.readableBytes > 0 { items[0].bytes = bytes } else { items.removeFirst() }
            return .forward(drop)
        case .free, .delayed, .held:
            break
        }
        items.removeFirst()
        guard let bytes = first.bytes else { return .end }
        size -= bytes.readableBytes
        return .forward(bytes)
    }

    /// Never before what came earlier.
    private mutating func due(at now: NIODeadline) -> NIODeadline {
        guard case .delayed(let fixed, let jitter) = flow else { return now }
        let late = now + TimeAmount(fixed + jitter * random.unit())
        return items.last.map { max($0.due, late) } ?? late
    }
}
