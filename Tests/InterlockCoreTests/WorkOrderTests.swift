import InterlockCore
import Testing

@Suite("The order of work")
struct WorkOrderTests {
    private func order(maximumStarted: Int = 10, capacity: Int = 100) -> WorkOrder {
        var order = WorkOrder(maximumStarted: maximumStarted, capacity: capacity)
        order.isRunning = true
        return order
    }

    private func startAll(_ order: inout WorkOrder) -> [UInt64] {
        var started: [UInt64] = []
        while let id = order.takeNext() { started.append(id) }
        return started
    }

    private func add(_ order: inout WorkOrder, after dependencies: UInt64...) throws -> UInt64 {
        let id = order.add(after: dependencies)
        return try #require(id)
    }

    @Test("Work without dependencies starts in the order in which it was added, within a limit")
    func bounded() throws {
        var order = order(maximumStarted: 2)
        let ids = [try add(&order), try add(&order), try add(&order), try add(&order)]
        let started1 = startAll(&order)
        #expect(started1 == [ids[0], ids[1]])
        let started2 = startAll(&order)
        #expect(started2 == [])
        _ = order.workEnded(ids[1], succeeded: true)
        let started3 = startAll(&order)
        #expect(started3 == [ids[2]])
        #expect(order.startedCount == 2)
    }

    @Test("Nothing starts before the queue runs")
    func notRunning() throws {
        var order = WorkOrder(maximumStarted: 1, capacity: 1)
        _ = try add(&order)
        let started4 = startAll(&order)
        #expect(started4 == [])
        order.isRunning = true
        let started5 = startAll(&order)
        #expect(started5.count == 1)
    }

    @Test("Work starts when all its dependencies have succeeded, even if one is listed twice")
    func workStartsAfterItsDependencies() throws {
        var order = order()
        let first = try add(&order)
        let second = try add(&order)
        let third = try add(&order, after: first, second, first)
        #expect(order.stage(of: third) == .waiting)
        let started6 = startAll(&order)
        #expect(started6 == [first, second])
        let firstEffects = order.workEnded(first, succeeded: true)
        #expect(firstEffects == .init())
        let ready = order.workEnded(second, succeeded: true)
        #expect(ready == .init(ready: [third]))
        let started7 = startAll(&order)
        #expect(started7 == [third])
    }

    @Test("Work that depends on finished work is ready immediately")
    func afterEnded() throws {
        var order = order()
        let first = try add(&order)
        _ = startAll(&order)
        _ = order.workEnded(first, succeeded: true)
        let second = try add(&order, after: first)
        #expect(order.stage(of: second) == .ready)
        #expect(order.stage(of: first) == nil)
    }

    @Test("A failure cancels all dependent work, and each cancellation names the dependency that caused it")
    func failureCancelsDependentWork() throws {
        var order = order()
        let login = try add(&order)
        let fetch = try add(&order, after: login)
        let store = try add(&order, after: fetch)
        let other = try add(&order)
        let started8 = startAll(&order)
        #expect(started8 == [login, other])
        let effects = order.workEnded(login, succeeded: false)
        #expect(effects == .init(cancelled: [.init(id: fetch, cause: login), .init(id: store, cause: fetch)]))
        #expect(order.all == [other])
    }

    @Test("Work that depends on two failures is cancelled once")
    func workThatDependsOnTwoFailuresIsCancelledOnce() throws {
        var order = order()
        let top = try add(&order)
        let left = try add(&order, after: top)
        let right = try add(&order, after: top)
        let bottom = try add(&order, after: left, right)
        _ = startAll(&order)
        let effects = order.workEnded(top, succeeded: false)
        #expect(effects.cancelled.map(\.id) == [left, right, bottom])
        #expect(order.count == 0)
    }

    @Test("Work that is cancelled before it starts never starts, nor does its dependent work")
    func cancelledWorkNeverStarts() throws {
        var order = order(maximumStarted: 1)
        let first = try add(&order)
        let second = try add(&order)
        let third = try add(&order, after: second)
        let fourth = try add(&order)
        let started9 = startAll(&order)
        #expect(started9 == [first])
        let effects = order.cancel(second)
        #expect(effects == .init(cancelled: [.init(id: second, cause: nil), .init(id: third, cause: second)]))
        _ = order.workEnded(first, succeeded: true)
        let started10 = startAll(&order)
        #expect(started10 == [fourth])
    }

    @Test("Work that has started or ended is not cancelled")
    func cancelledTooLate() throws {
        var order = order()
        let first = try add(&order)
        _ = startAll(&order)
        let started = order.cancel(first)
        #expect(started == .init())
        #expect(order.stage(of: first) == .started)
        _ = order.workEnded(first, succeeded: true)
        let ended = order.cancel(first)
        #expect(ended == .init())
    }

    @Test("Work that has not started cannot end")
    func endsOnlyWhenStarted() throws {
        var order = order()
        let first = try add(&order)
        let effects = order.workEnded(first, succeeded: true)
        #expect(effects == .init())
        #expect(order.stage(of: first) == .ready)
    }

    @Test("The number of unfinished pieces of work is bounded")
    func numberOfUnfinishedPiecesOfWorkIsBounded() throws {
        var order = order(capacity: 2)
        let first = try add(&order)
        _ = try add(&order)
        #expect(order.isFull)
        let refused = order.add(after: [])
        #expect(refused == nil)
        _ = order.cancel(first)
        _ = try add(&order)
    }

    @Test("In any sequence nothing starts before its dependencies, and everything ends")
    func random() {
        var random = SeededRandom(seed: 11)
        for _ in 0..<200 {
            var order = WorkOrder(maximumStarted: Int.random(in: 1...4, using: &random), capacity: 50)
            order.isRunning = true
            var dependencies: [UInt64: Set<UInt64>] = [:]
            var succeeded: Set<UInt64> = []
            var failed: Set<UInt64> = []
            var started: Set<UInt64> = []
            func note(_ effects: WorkOrder.Effects) {
                for cancellation in effects.cancelled {
                    let isNew = failed.insert(cancellation.id).inserted
                    #expect(isNew)
                    if let cause = cancellation.cause { #expect(failed.contains(cause)) }
                }
            }
            for step in 0..<150 {
                switch Int.random(in: 0...3, using: &random) {
                case 0, 1:
                    let known = order.all
                    let chosen = (0..<Int.random(in: 0...2, using: &random)).compactMap { _ in known.randomElement(using: &random)
                    }
                    if step < 100, let id = order.add(after: chosen) { dependencies[id] = Set(chosen) }
                case 2:
                    if let id = order.all.randomElement(using: &random), Int.random(in: 0...3, using: &random) == 0 {
                        note(order.cancel(id))
                    }
                default:
                    if let id = started.randomElement(using: &random) {
                        let isGood = Int.random(in: 0...3, using: &random) > 0
                        if isGood { succeeded.insert(id) } else { failed.insert(id) }
                        started.remove(id)
                        note(order.workEnded(id, succeeded: isGood))
                    }
                }
                while let id = order.takeNext() {
                    #expect(dependencies[id]?.isSubset(of: succeeded) == true)
                    let isNew = started.insert(id).inserted
                    #expect(isNew)
                }
                #expect(order.startedCount == started.count)
                #expect(started.count <= order.maximumStarted)
            }
            while let id = started.first {
                started.remove(id)
                succeeded.insert(id)
                note(order.workEnded(id, succeeded: true))
                while let next = order.takeNext() { started.insert(next) }
            }
            #expect(order.count == 0)
            #expect(succeeded.union(failed) == Set(dependencies.keys))
        }
    }
}
