import InterlockCore
import Testing

@Suite("One renewal of a lease on a majority of servers")
struct QuorumRenewalTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let ttl: Int64 = 10_000
    private let timeout: Int64 = 1000

    private func newRenewal(of servers: Int = 3) -> QuorumRenewal {
        QuorumRenewal(servers: servers, ttlMilliseconds: ttl, startedAt: start, timeoutMilliseconds: timeout)
    }

    private func after(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    private func found(_ number: Int64, at time: Int64 = 5_000_000) -> QuorumRenewal.Observation {
        QuorumRenewal.Observation(number: number, timeMilliseconds: time)
    }

    private func valid(after milliseconds: Int64) -> Int64 { ttl - LeaseValidity.driftMilliseconds(ofTTL: ttl) - milliseconds }

    @Test("A server that lost the lease gets it back once a majority has renewed it, whichever server answers first")
    func restores() {
        let empty = found(0, at: 7_000_000)
        let expected = QuorumRenewal.Restore(server: 0, fence: 101, found: empty, windowMilliseconds: timeout)
        var renewal = newRenewal()
        #expect(renewal.vote(.missing(empty), by: 0, now: after(1)) == .init())
        #expect(renewal.vote(.renewed(found(101)), by: 1, now: after(2)) == .init())
        #expect(
            renewal.vote(.renewed(found(101)), by: 2, now: after(3))
                == .init(result: .renewed(validMilliseconds: valid(after: 3)), restores: [expected]))
        var late = newRenewal()
        _ = late.vote(.renewed(found(101)), by: 1, now: after(2))
        #expect(
            late.vote(.renewed(found(101)), by: 2, now: after(3))
                == .init(result: .renewed(validMilliseconds: valid(after: 3))))
        #expect(late.vote(.missing(empty), by: 0, now: after(4)) == .init(restores: [expected]))
    }

    @Test("Without a majority nothing is restored, even if more servers answer later")
    func noMajority() {
        var renewal = newRenewal()
        _ = renewal.vote(.missing(found(0)), by: 0, now: after(1))
        #expect(renewal.vote(.missing(found(0)), by: 1, now: after(2)) == .init(result: .lost))
        #expect(renewal.vote(.renewed(found(101)), by: 2, now: after(3)) == .init())
        var slow = newRenewal()
        _ = slow.vote(.renewed(found(101)), by: 0, now: after(1))
        _ = slow.vote(.missing(found(0)), by: 1, now: after(1))
        #expect(slow.timedOut(now: after(1000)) == .init(result: .unavailable))
        #expect(slow.vote(.renewed(found(101)), by: 2, now: after(1001)) == .init())
    }

    @Test("An expired lease is not restored, and no server keeps it for longer than the lease is valid")
    func expiredLeaseIsNotRestored() {
        var renewal = newRenewal()
        _ = renewal.vote(.renewed(found(101)), by: 0, now: after(1))
        _ = renewal.vote(.missing(found(0)), by: 2, now: after(1))
        #expect(renewal.vote(.renewed(found(101)), by: 1, now: after(ttl)) == .init(result: .tooLate))
        let short: Int64 = 100
        var brief = QuorumRenewal(servers: 3, ttlMilliseconds: short, startedAt: start, timeoutMilliseconds: timeout)
        _ = brief.vote(.renewed(found(101)), by: 0, now: after(1))
        _ = brief.vote(.renewed(found(101)), by: 1, now: after(10))
        let left = short - LeaseValidity.driftMilliseconds(ofTTL: short) - 20
        #expect(brief.vote(.missing(found(0)), by: 2, now: after(20)).restores.map(\.windowMilliseconds) == [left])
        #expect(!brief.mayRestore(now: after(short)))
        var over = newRenewal()
        _ = over.vote(.renewed(found(101)), by: 0, now: after(1))
        _ = over.vote(.renewed(found(101)), by: 1, now: after(2))
        #expect(over.vote(.missing(found(0)), by: 2, now: after(2 * timeout)).restores.isEmpty)
    }

    @Test("A restored lease has the fence of a majority, else the highest recorded one, never a merely minted one")
    func restoredLeaseHasMajorityFence() {
        func fence(_ numbers: [Int64]) -> Int64? {
            var renewal = newRenewal(of: 5)
            _ = renewal.vote(.missing(found(0)), by: 4, now: start)
            _ = renewal.vote(.missing(found(0)), by: 3, now: start)
            _ = renewal.vote(.renewed(found(numbers[0])), by: 0, now: start)
            _ = renewal.vote(.renewed(found(numbers[1])), by: 1, now: start)
            return renewal.vote(.renewed(found(numbers[2])), by: 2, now: start).restores.first { $0.server == 4 }?.fence
        }
        #expect(fence([101, 101, 101]) == 101)
        #expect(fence([101, 105, 101]) == 105)
        #expect(fence([101, 200, 101]) == 101)
        #expect(fence([0, 200, 100]) == nil)
    }

    @Test("A server with a higher number than the lease's fence records that fence if it is certain")
    func higherNumbers() {
        func restores(_ last: QuorumRenewal.Vote, fence: Int64? = nil) -> [QuorumRenewal.Restore] {
            var renewal = QuorumRenewal(
                servers: 3, ttlMilliseconds: ttl, fence: fence, startedAt: start, timeoutMilliseconds: timeout)
            _ = renewal.vote(.renewed(found(101)), by: 0, now: start)
            let first = renewal.vote(.renewed(found(101)), by: 1, now: start).restores
            return first + renewal.vote(last, by: 2, now: start).restores
        }
        let expected = QuorumRenewal.Restore(server: 2, fence: 101, found: found(105), windowMilliseconds: timeout)
        #expect(restores(.renewed(found(105))) == [expected])
        #expect(restores(.missing(found(105)), fence: 101) == [expected])
        #expect(restores(.renewed(found(101)), fence: 101).isEmpty)
    }

    @Test("A server that has the lease without its fence records it")
    func unrecorded() {
        var renewal = newRenewal()
        _ = renewal.vote(.renewed(found(100)), by: 0, now: start)
        let step = renewal.vote(.renewed(found(103)), by: 1, now: start)
        #expect(step.restores.map(\.server) == [0])
        #expect(step.restores.map(\.fence) == [103])
    }
}
