internal import Interlock
internal import InterlockCore

/// The clients of locks in one run: how many, of which locks, and how they behave is drawn from the seed.
final class LockCrowd: SimulatedCrowd {
    /// How a lock is used by all its clients.
    enum Use {
        case exclusive
        /// By readers, and by a writer this often.
        case shared(writers: Double)
        case semaphore(places: Int)
    }

    /// How often clients do what.
    struct Habits {
        /// The longest pause between two wishes, in ms.
        var thinking: Int64
        /// Leases are so long, in ms.
        var ttl: ClosedRange<Int64>
        /// Those who wait do so for so long, in ms.
        var wait: ClosedRange<Int64>
        /// The longest hold of a client that releases in time, in ms.
        var hold: Int64
        var waits: Double
        var vanishes: Double
        var forgets: Double
        var overstays: Double
        var renews: Double
        /// Has its lease extended by the sidecar for as long as it lives.
        var links: Double
        /// Chooses its token, and asks again when it has no answer.
        var choosesToken: Double
        /// Releases through another sidecar than it acquired by.
        var wanders: Double
    }

    let locks: [SimulatedLock]
    let uses: [Use]
    let habits: Habits
    private let clientCount: Int
    private var clients: [LockClient] = []
    private(set) var isStopping = false
    private(set) var resource = GuardedResource()
    private var lastLease: LeaseID = 0
    /// Leases of owners who choose their token: the same grant has the same number.
    private var leases: [String: LeaseID] = [:]

    init(world: SimulatedWorld) {
        let space = KeySpace()
        locks = (0..<1 + world.pick(12)).map { number in
            SimulatedLock(number: number, keys: ModelLockKeys(name: "lock-\(number)", space: space))
        }
        uses = locks.map { _ in
            switch world.pick(6) {
            case 0: .shared(writers: 0.3)
            case 1: .semaphore(places: 1 + world.pick(4))
            default: .exclusive
            }
        }
        clientCount = 2 + world.pick(39)
        let shortest = world.draw(10...400)
        habits = Habits(
            thinking: world.draw(0...200), ttl: shortest...shortest * world.draw(1...10), wait: 1...world.draw(50...20_000),
            hold: world.draw(0...shortest), waits: world.random.unit(), vanishes: world.random.unit() * 0.05,
            forgets: world.random.unit() * 0.1, overstays: world.random.unit() * 0.1, renews: world.random.unit() * 0.4,
            links: world.random.unit() * 0.3,
            choosesToken: world.happens(0.3) ? world.random.unit() * 0.5 : 0, wanders: world.random.unit() * 0.3)
    }

    var services: [ServiceRules] { [] }
    /// Two commands in turn, each within its time, and something for the ways.
    var patience: Int64 { 2 * SimulatedRedisLink.commandTimeout + 100 }
    var isIdle: Bool { clients.allSatisfy(\.isIdle) }

    func furnish(_ sidecar: SimulatedSidecar) {
        sidecar.add(LockRoom(sidecar: sidecar, locks: locks))
    }

    func start(in fleet: SimulatedFleet) {
        clients = (0..<clientCount).map { _ in LockClient(number: fleet.nextClient(), crowd: self, fleet: fleet) }
        for client in clients { client.think() }
    }

    func stop() {
        isStopping = true
    }

    /// The number of the grant of a token with a fence.
    func lease(token: String, fence: Int64, isOwners: Bool) -> LeaseID {
        guard isOwners else {
            lastLease += 1
            return lastLease
        }
        let grant = "\(token) \(fence)"
        if let known = leases[grant] { return known }
        lastLease += 1
        leases[grant] = lastLease
        return lastLease
    }

    func write(lock: Int, fence: Int64) -> Bool { resource.write(lock: lock, fence: fence) }
}
