import InterlockCore
import Testing

@Suite("One attempt to acquire a lock on a majority of servers")
struct QuorumRoundTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let ttl: Int64 = 10_000

    private func newRound(of servers: Int = 3, awaitsEveryAnswer: Bool = false) -> QuorumRound {
        QuorumRound(servers: servers, ttlMilliseconds: ttl, startedAt: start, awaitsEveryAnswer: awaitsEveryAnswer)
    }

    private func after(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    @Test("The lease is granted when a majority has granted it and then recorded its fence")
    func majorityGrantsLease() {
        var round = newRound()
        #expect(round.vote(.granted(fence: 100), by: 0, now: after(1)) == .none)
        #expect(round.vote(.granted(fence: 200), by: 2, now: after(2)) == .writeFence(201, servers: [0, 2]))
        #expect(round.fenceRecorded(true, by: 2, now: after(3)) == .none)
        let valid = ttl - LeaseValidity.driftMilliseconds(ofTTL: ttl) - 4
        #expect(round.fenceRecorded(true, by: 0, now: after(4)) == .granted(fence: 201, validMilliseconds: valid))
    }

    @Test("A fence that is already recorded is not raised again")
    func recordedFenceStays() {
        var round = newRound()
        _ = round.vote(.renewed(fence: 101), by: 0, now: start)
        #expect(round.vote(.granted(fence: 90), by: 1, now: start) == .writeFence(101, servers: [0, 1]))
    }

    @Test("The lock is held when others have too many servers for a majority to remain")
    func lockIsHeldWhenOthersPreventMajority() {
        var round = newRound()
        #expect(round.vote(.granted(fence: 2), by: 0, now: start) == .none)
        #expect(round.vote(.held(isRecorded: true), by: 1, now: start) == .none)
        #expect(round.vote(.held(isRecorded: true), by: 2, now: start) == .giveUp(.held))
        #expect(round.isGivenUp)
    }

    @Test("The lock is unavailable when too few servers can be reached for a majority")
    func lockIsUnavailableWithoutMajority() {
        var round = newRound()
        #expect(round.vote(.failed, by: 0, now: start) == .none)
        #expect(round.vote(.failed, by: 1, now: start) == .giveUp(.unavailable))
    }

    @Test("The result does not depend on the order of the answers")
    func anyOrder() {
        for votes in orders(of: [QuorumRound.Vote.failed, .held(isRecorded: true), .held(isRecorded: true)]) {
            #expect(decision(on: votes) == .giveUp(.held))
        }
        for votes in orders(of: [QuorumRound.Vote.failed, .held(isRecorded: true), .granted(fence: 2)]) {
            #expect(decision(on: votes) == .giveUp(.unavailable))
        }
        for votes in orders(of: [QuorumRound.Vote.failed, .granted(fence: 4), .granted(fence: 2)]) {
            guard case .writeFence(5, _) = decision(on: votes) else {
                Issue.record("not granted: \(votes)")
                continue
            }
        }
    }

    /// Tries every combination of answers of one to five servers, in order.
    @Test(
        "A round of any size requests the fence exactly when a majority granted, and reports held only if that is the cause",
        arguments: 1...5)
    func onlyMajorityRequestsFence(servers: Int) {
        let majority = QuorumTally.majority(of: servers)
        let kinds = [QuorumRound.Vote.granted(fence: 10), .renewed(fence: 20), .held(isRecorded: true), .failed]
        var total = 1
        for _ in 0..<servers { total *= kinds.count }
        for number in 0..<total {
            var remainingDigits = number
            var votes: [QuorumRound.Vote] = []
            for _ in 0..<servers {
                votes.append(kinds[remainingDigits % kinds.count])
                remainingDigits /= kinds.count
            }
            let held = votes.count(where: { $0 == .held(isRecorded: true) })
            let holding = votes.count(where: { $0 != .held(isRecorded: true) && $0 != .failed })
            switch decision(on: votes) {
            case .writeFence(let fence, let asked):
                #expect(holding >= majority, "\(votes)")
                #expect(asked.count == majority)
                #expect(fence == 11 || fence == 21)
            case .giveUp(.held):
                #expect(holding < majority && held > servers - majority, "\(votes)")
            case .giveUp(.unavailable):
                #expect(holding < majority && held <= servers - majority, "\(votes)")
            case let other:
                Issue.record("\(votes) ended with \(other)")
            }
        }
    }

    @Test("Servers that do not answer in time no longer count, and the others decide")
    func timedOut() {
        var silent = newRound()
        #expect(silent.vote(.granted(fence: 2), by: 0, now: start) == .none)
        #expect(silent.timedOut(now: after(500)) == .giveUp(.unavailable))
        var patient = newRound(awaitsEveryAnswer: true)
        #expect(patient.vote(.granted(fence: 2), by: 0, now: start) == .none)
        #expect(patient.vote(.granted(fence: 4), by: 1, now: start) == .none)
        #expect(patient.timedOut(now: after(500)) == .writeFence(5, servers: [0, 1]))
    }

    @Test("A lease that expires before it can be granted is abandoned in either phase")
    func over() {
        var collecting = newRound()
        _ = collecting.vote(.granted(fence: 2), by: 0, now: start)
        #expect(collecting.vote(.granted(fence: 2), by: 1, now: after(ttl)) == .giveUp(.unavailable))
        var recording = newRound()
        _ = recording.vote(.granted(fence: 2), by: 0, now: start)
        _ = recording.vote(.granted(fence: 2), by: 1, now: start)
        _ = recording.fenceRecorded(true, by: 0, now: start)
        #expect(recording.fenceRecorded(true, by: 1, now: after(ttl)) == .giveUp(.unavailable))
    }

    @Test("Without a majority that recorded the fence no lease is granted")
    func notRecorded() {
        var refused = newRound()
        _ = refused.vote(.granted(fence: 2), by: 0, now: start)
        _ = refused.vote(.granted(fence: 2), by: 1, now: start)
        // The third server may still grant and record the fence.
        #expect(refused.fenceRecorded(false, by: 0, now: start) == .none)
        #expect(refused.vote(.held(isRecorded: true), by: 2, now: start) == .giveUp(.unavailable))
        var silent = newRound()
        _ = silent.vote(.granted(fence: 2), by: 0, now: start)
        _ = silent.vote(.granted(fence: 2), by: 1, now: start)
        _ = silent.fenceRecorded(true, by: 0, now: start)
        #expect(silent.timedOut(now: after(500)) == .giveUp(.unavailable))
    }

    @Test("A grant that arrives while the fence is recorded counts and may complete the majority")
    func lateGrantHelps() {
        var round = newRound()
        _ = round.vote(.granted(fence: 2), by: 0, now: start)
        _ = round.vote(.granted(fence: 4), by: 1, now: start)
        #expect(round.vote(.granted(fence: 8), by: 2, now: start) == .writeFence(5, servers: [2]))
        _ = round.fenceRecorded(true, by: 2, now: start)
        _ = round.fenceRecorded(false, by: 1, now: start)
        guard case .granted(5, _) = round.fenceRecorded(true, by: 0, now: start) else {
            Issue.record("two of three recorded the fence")
            return
        }
    }

    @Test("A server that grants after the lease was granted receives the fence, and after a failed attempt it is released")
    func lateGrants() {
        var granted = newRound()
        _ = granted.vote(.granted(fence: 2), by: 0, now: start)
        _ = granted.vote(.granted(fence: 4), by: 1, now: start)
        _ = granted.fenceRecorded(true, by: 0, now: start)
        _ = granted.fenceRecorded(true, by: 1, now: start)
        #expect(granted.timedOut(now: after(500)) == .none)
        #expect(granted.vote(.granted(fence: 6), by: 2, now: after(600)) == .writeFence(5, servers: [2]))
        #expect(granted.fenceRecorded(true, by: 2, now: after(600)) == .none)
        var givenUp = newRound()
        _ = givenUp.vote(.granted(fence: 2), by: 0, now: start)
        _ = givenUp.timedOut(now: after(500))
        #expect(givenUp.vote(.granted(fence: 6), by: 1, now: after(600)) == .release(1))
        #expect(givenUp.vote(.held(isRecorded: true), by: 2, now: after(600)) == .none)
    }

    @Test("Each answer counts once")
    func onlyOnce() {
        var round = newRound()
        _ = round.vote(.granted(fence: 2), by: 0, now: start)
        #expect(round.vote(.granted(fence: 2), by: 0, now: start) == .none)
        #expect(round.fenceRecorded(true, by: 0, now: start) == .none)
        #expect(round.timedOut(now: after(500)) == .giveUp(.unavailable))
    }

    // MARK: The same owner again

    @Test("An owner with a lease gets its fence again, even if another server has a higher number")
    func sameFence() {
        for votes in orders(of: [QuorumRound.Vote.renewed(fence: 101), .renewed(fence: 101), .renewed(fence: 107)]) {
            guard case .writeFence(101, _) = decision(on: votes, awaitsEveryAnswer: true) else {
                Issue.record("another fence: \(votes)")
                continue
            }
        }
    }

    @Test("If no majority agrees on a fence, the owner gets a new one above all numbers")
    func newFence() {
        let votes = [QuorumRound.Vote.renewed(fence: 101), .renewed(fence: 107), .granted(fence: 110)]
        for votes in orders(of: votes) {
            guard case .writeFence(111, _) = decision(on: votes, awaitsEveryAnswer: true) else {
                Issue.record("another fence: \(votes)")
                continue
            }
        }
    }

    @Test("Minted numbers are no fence even if a majority has the same one")
    func mintedIsNotRecorded() {
        let votes = [QuorumRound.Vote.renewed(fence: 100), .renewed(fence: 100), .failed]
        #expect(decision(on: votes, awaitsEveryAnswer: true) == .writeFence(101, servers: [0, 1]))
    }

    // MARK: Fences over many rounds

    @Test("Fences strictly rise, whichever servers answer and however much their clocks differ", arguments: 1...50)
    func fencesRise(seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let servers = [3, 4, 5][seed % 3]
        var numbers = [Int64](repeating: 0, count: servers)
        // The servers' clocks, from which fences are minted: up to a million apart, and some stopped.
        var clocks = (0..<servers).map { _ in Int64.random(in: 1...1_000_000, using: &random) }
        var last: Int64 = 0
        for _ in 0..<200 {
            for server in 0..<servers where Bool.random(using: &random) {
                clocks[server] += Int64.random(in: 0...100, using: &random)
            }
            var round = QuorumRound(servers: servers, ttlMilliseconds: ttl, startedAt: start)
            var recording: [(fence: Int64, server: Int)] = []
            var handedOut: Int64?
            for server in (0..<servers).shuffled(using: &random) {
                let isUnreachable = Int.random(in: 0..<4, using: &random) == 0
                var vote = QuorumRound.Vote.failed
                if !isUnreachable {
                    numbers[server] = max(numbers[server] + 1, clocks[server])
                    numbers[server] += numbers[server] % 2
                    vote = .granted(fence: numbers[server])
                }
                if case .writeFence(let fence, let asked) = round.vote(vote, by: server, now: start) {
                    recording += asked.map { (fence: fence, server: $0) }
                }
            }
            for (fence, server) in recording.shuffled(using: &random) {
                let isUnreachable = Int.random(in: 0..<4, using: &random) == 0
                if !isUnreachable {
                    let number = numbers[server]
                    numbers[server] = number > fence ? number + 1 - number % 2 : fence
                }
                if case .granted(let fence, _) = round.fenceRecorded(!isUnreachable, by: server, now: start) {
                    handedOut = fence
                }
            }
            guard let handedOut else { continue }
            #expect(handedOut > last)
            last = handedOut
        }
        #expect(last > 0)
    }

    // MARK: Helpers

    /// Returns the round's first decision on `votes`, counted in order; `.none` if there is none.
    private func decision(on votes: [QuorumRound.Vote], awaitsEveryAnswer: Bool = false) -> QuorumRound.Action {
        var round = newRound(of: votes.count, awaitsEveryAnswer: awaitsEveryAnswer)
        for (server, vote) in votes.enumerated() {
            let action = round.vote(vote, by: server, now: start)
            if action != .none { return action }
        }
        return .none
    }

    private func orders<Element>(of elements: [Element]) -> [[Element]] {
        guard elements.count > 1 else { return [elements] }
        return elements.indices.flatMap { index in
            var others = elements
            let first = others.remove(at: index)
            return orders(of: others).map { [first] + $0 }
        }
    }
}
