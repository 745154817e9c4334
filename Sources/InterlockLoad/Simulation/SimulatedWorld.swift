internal import DequeModule
internal import HeapModule
internal import InterlockCore

/// A world in which time passes from event to event, and a seed decides what happens: the same seed, the same history.
///
/// Everything runs on one thread. Nothing in it may iterate a `Dictionary` or `Set`, whose order differs from process to process.
final class SimulatedWorld {
    /// A process. While it is paused its events wait; when it crashes they are dropped.
    struct NodeID: Hashable {
        fileprivate var index: Int
    }

    /// An event that can be called off.
    struct EventID {
        fileprivate var slot: Int
        fileprivate var sequence: UInt64
    }

    /// Where on the timeline an event lies; those of one instant have their turn in the order in which they were scheduled.
    private struct Place: Comparable {
        var at: Int64
        var sequence: UInt64
        var slot: Int

        static func < (left: Place, right: Place) -> Bool {
            left.at != right.at ? left.at < right.at : left.sequence < right.sequence
        }
    }

    /// What is done then. A slot is used again once it is free: `sequence` tells its tenants apart.
    private struct Slot {
        var sequence: UInt64 = 0
        var node = 0
        var incarnation: UInt32 = 0
        var isTimer = false
        var action: (() -> Void)?
    }

    private struct Node {
        var incarnation: UInt32 = 0
        var isPaused = false
        var held: Deque<EventID> = []
    }

    /// Nothing ever happens to it: where clients live.
    static let outside = NodeID(index: 0)
    /// What a delay is counted in.
    static let microsecond: Int64 = 1000
    static let millisecond: Int64 = 1_000_000

    private(set) var now = Instant(nanoseconds: 1_000_000_000_000)
    /// How many events have happened.
    private(set) var steps = 0
    var random: SeededRandom
    private var timeline = Heap<Place>()
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    private var lastSequence: UInt64 = 0
    private var nodes = [Node()]
    /// What was recorded since it was last taken.
    private var recorded: [HistoryEvent] = []

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    // MARK: Chance

    /// Evenly spread over `range`.
    func draw(_ range: ClosedRange<Int64>) -> Int64 {
        let span = UInt64(range.upperBound - range.lowerBound) + 1
        return range.lowerBound + Int64(random.next().multipliedFullWidth(by: span).high)
    }

    /// One of 0 ..< count.
    func pick(_ count: Int) -> Int { Int(draw(0...Int64(count - 1))) }

    func happens(_ probability: Double) -> Bool { random.happens(probability) }

    /// What a token is made of.
    func drawPair() -> (UInt64, UInt64) { (random.next(), random.next()) }

    // MARK: Events

    /// Does `action` on `node` so many nanoseconds from now.
    @discardableResult
    func schedule(
        after nanoseconds: Int64, on node: NodeID = outside, isTimer: Bool = false, _ action: @escaping () -> Void
    ) -> EventID {
        schedule(
            at: Instant(nanoseconds: now.nanoseconds + max(0, nanoseconds)), on: node, isTimer: isTimer, action)
    }

    /// Does `action` on `node` at `instant`, or now if that has been.
    @discardableResult
    func schedule(at instant: Instant, on node: NodeID = outside, isTimer: Bool = false, _ action: @escaping () -> Void)
        -> EventID
    {
        lastSequence += 1
        let slot: Int
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = slots.count
            slots.append(Slot())
        }
        slots[slot].sequence = lastSequence
        slots[slot].node = node.index
        slots[slot].incarnation = nodes[node.index].incarnation
        slots[slot].isTimer = isTimer
        slots[slot].action = action
        timeline.insert(Place(at: max(instant, now).nanoseconds, sequence: lastSequence, slot: slot))
        return EventID(slot: slot, sequence: lastSequence)
    }

    /// It does not happen, if it has not yet.
    func cancel(_ event: EventID) {
        guard slots[event.slot].sequence == event.sequence, slots[event.slot].action != nil else { return }
        free(event.slot)
    }

    private func free(_ slot: Int) {
        slots[slot].action = nil
        freeSlots.append(slot)
    }

    /// The next event happens. `false`: there is none.
    func step() -> Bool {
        while let place = timeline.popMin() {
            let slot = place.slot
            // Called off.
            guard slots[slot].sequence == place.sequence, slots[slot].action != nil else { continue }
            now = Instant(nanoseconds: place.at)
            let node = slots[slot].node
            guard slots[slot].incarnation == nodes[node].incarnation else {
                free(slot)
                continue
            }
            if nodes[node].isPaused || !nodes[node].held.isEmpty {
                nodes[node].held.append(EventID(slot: slot, sequence: place.sequence))
                continue
            }
            perform(slot)
            return true
        }
        return false
    }

    private func perform(_ slot: Int) {
        guard let action = slots[slot].action else { return }
        free(slot)
        steps += 1
        action()
    }

    /// Forgets everything that was to come: events and those they concern refer to each other.
    func end() {
        timeline = Heap()
        slots = []
        freeSlots = []
        nodes = [Node()]
    }

    // MARK: Nodes

    func addNode() -> NodeID {
        nodes.append(Node())
        return NodeID(index: nodes.count - 1)
    }

    func isPaused(_ node: NodeID) -> Bool { nodes[node.index].isPaused }

    /// How often it has crashed: what began in an earlier life of its is over.
    func crashes(of node: NodeID) -> UInt32 { nodes[node.index].incarnation }

    func pause(_ node: NodeID) {
        nodes[node.index].isPaused = true
    }

    /// It goes on: with what it should have done meanwhile, in order; or with what came from others before its own timers.
    func resume(_ node: NodeID) {
        guard nodes[node.index].isPaused else { return }
        nodes[node.index].isPaused = false
        if happens(0.5) {
            let held = nodes[node.index].held
            nodes[node.index].held = Deque(
                held.filter { !slots[$0.slot].isTimer } + held.filter { slots[$0.slot].isTimer })
        }
        catchUp(node)
    }

    private func catchUp(_ node: NodeID) {
        guard !nodes[node.index].held.isEmpty else { return }
        schedule(after: draw(0...5 * Self.microsecond)) { [unowned self] in
            guard !nodes[node.index].isPaused, let event = nodes[node.index].held.popFirst() else { return }
            if slots[event.slot].sequence == event.sequence { perform(event.slot) }
            catchUp(node)
        }
    }

    /// Nothing that was planned on it happens; it can be used again at once, by another incarnation.
    func crash(_ node: NodeID) {
        nodes[node.index].incarnation += 1
        nodes[node.index].isPaused = false
        for event in nodes[node.index].held { cancel(event) }
        nodes[node.index].held = []
    }

    // MARK: History

    func record(_ what: HistoryEvent.What) {
        recorded.append(HistoryEvent(at: now, what))
    }

    func takeRecorded() -> [HistoryEvent] {
        guard !recorded.isEmpty else { return [] }
        defer { recorded.removeAll(keepingCapacity: true) }
        return recorded
    }
}
