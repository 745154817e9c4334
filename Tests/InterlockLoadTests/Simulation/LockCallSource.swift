import InterlockCore
import InterlockLoad

@testable import Interlock
@testable import InterlockLoad

/// Draws calls of the scripts of locks, most of them such as make sense where the model stands.
struct LockCallSource {
    /// Those of the last one do not listen.
    static let sidecars = [LockCall.breakersSidecar, "bbbbbbbbbbbb", "cccccccccccc"]
    static let listening = sidecars.dropLast()
    private static let modes: [LockMode] = [.exclusive, .exclusive, .shared, .permits(1), .permits(3)]

    let locks: [ModelLockKeys]
    private(set) var random: SeededRandom
    private var tokens: [String]
    private var tickets: [String]

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        let space = KeySpace()
        locks = (0..<2).map { ModelLockKeys(name: "lock-\($0)", space: space) }
        tokens = ["foreign"]
        tickets = []
        for number in 0..<8 {
            tokens.append(OwnerToken.make(label: "owner", random: (random.next(), random.next())))
            tickets.append(
                OwnerToken.make(label: Self.sidecars[number % Self.sidecars.count], random: (random.next(), random.next())))
        }
    }

    mutating func lock() -> ModelLockKeys { locks[Int.random(in: 0..<locks.count, using: &random)] }

    /// How far the clock moves, in microseconds.
    mutating func step() -> Int64 {
        switch random.unit() {
        case ..<0.25: 0
        case ..<0.75: .random(in: 0...60_000, using: &random)
        case ..<0.93: .random(in: 0...900_000, using: &random)
        case ..<0.96: .random(in: 0...20_000_000, using: &random)
        case ..<0.97: 86_400_000_000
        default: -.random(in: 0...3_000_000, using: &random)
        }
    }

    mutating func call(of lock: ModelLockKeys, in model: ModelRedis) -> LockCall {
        let sidecar = draw(Self.sidecars)
        let ttl: Int64 = .random(in: 5...1500, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case ..<45:
            let mode = draw(Self.modes)
            return .acquire(
                .init(
                    token: draw(tokens), ttl: ttl, mode: mode, onlyOwner: random.happens(0.1), ticket: ticket(in: model, lock),
                    group: OwnerToken.make(label: mode.groupLabel ?? "", random: (random.next(), random.next()))))
        case ..<58:
            return .renew(
                token: holder(of: lock, in: model), ttl: ttl, isGroup: random.happens(0.4), isBySidecar: random.happens(0.4))
        case ..<80:
            return .release(token: holder(of: lock, in: model), sidecar: sidecar, successor(of: sidecar))
        case ..<88:
            return .releaseShare(token: holder(of: lock, in: model), sidecar: sidecar)
        case ..<97:
            return .leave(ticket: random.happens(0.5) ? model.get(lock.lock) ?? draw(tickets) : draw(tickets), sidecar: sidecar)
        default:
            return .breakLock
        }
    }

    private mutating func draw<Element>(_ elements: [Element]) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }

    private mutating func ticket(in model: ModelRedis, _ lock: ModelLockKeys) -> LockTicket? {
        guard random.happens(0.7) else { return nil }
        var token = draw(tickets)
        // Whose turn it is comes.
        if random.happens(0.4), let holder = model.get(lock.lock), tickets.contains(holder) { token = holder }
        return LockTicket(token: token, lifetime: .random(in: 1...4000, using: &random), hasOthers: random.happens(0.5))
    }

    private mutating func successor(of sidecar: String) -> LockSuccessor? {
        guard random.happens(0.5) else { return nil }
        let own = tickets.filter { $0.hasPrefix(sidecar) }
        return LockSuccessor(
            token: draw(tokens), ttl: .random(in: 5...1500, using: &random), goesOn: random.happens(0.5),
            ticket: LockTicket(
                token: draw(own), lifetime: .random(in: 1...4000, using: &random), hasOthers: random.happens(0.5)))
    }

    /// Mostly one who holds the lock.
    private mutating func holder(of lock: ModelLockKeys, in model: ModelRedis) -> String {
        let members = model.members(lock.holders).map(\.member)
        if random.happens(0.5), !members.isEmpty { return draw(members) }
        return random.happens(0.7) ? model.get(lock.lock) ?? draw(tokens) : draw(tokens)
    }
}
