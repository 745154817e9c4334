import InterlockCore
import Testing

@testable import SidecarProxy

@Suite("Protocol of a tunnel")
struct TunnelStateMachineTests {
    private var now = Instant(nanoseconds: 1_000_000_000)
    private var machine = TunnelStateMachine(idleTimeoutMilliseconds: 1000, now: Instant(nanoseconds: 1_000_000_000))

    @Test("A side is read while the other accepts bytes", arguments: [TunnelStateMachine.Side.client, .upstream])
    mutating func sideIsReadWhileOtherAcceptsBytes(side: TunnelStateMachine.Side) {
        #expect(machine.readRequested(side, isOtherWritable: true) == .read(side))
        #expect(machine.becameWritable(side.other) == .none)
    }

    @Test(
        "A read waits for the other side to accept bytes, and happens once",
        arguments: [TunnelStateMachine.Side.client, .upstream])
    mutating func readWaitsForOtherSideToAcceptBytes(side: TunnelStateMachine.Side) {
        #expect(machine.readRequested(side, isOtherWritable: false) == .none)
        #expect(machine.readRequested(side, isOtherWritable: false) == .none)
        #expect(machine.becameWritable(side) == .none)
        #expect(machine.becameWritable(side.other) == .read(side))
        #expect(machine.becameWritable(side.other) == .none)
    }

    @Test("The sides wait independently of each other")
    mutating func bothHeld() {
        #expect(machine.readRequested(.client, isOtherWritable: false) == .none)
        #expect(machine.readRequested(.upstream, isOtherWritable: false) == .none)
        #expect(machine.becameWritable(.upstream) == .read(.client))
        #expect(machine.becameWritable(.client) == .read(.upstream))
    }

    @Test("An idle tunnel closes after its timeout, which every byte restarts")
    mutating func idleTunnelClosesAfterTimeout() {
        now = now.advanced(byMilliseconds: 999)
        #expect(machine.timerFired(now: now) == .setTimer)
        machine.bytesReceived(now: now)
        now = now.advanced(byMilliseconds: 999)
        #expect(machine.timerFired(now: now) == .setTimer)
        now = now.advanced(byMilliseconds: 1)
        #expect(machine.timerDeadline == now)
        #expect(machine.timerFired(now: now) == .close)
    }

    @Test("A tunnel closes once")
    mutating func tunnelClosesOnce() {
        #expect(machine.readRequested(.client, isOtherWritable: false) == .none)
        #expect(machine.end() == .close)
        #expect(machine.end() == .none)
        #expect(machine.timerFired(now: now.advanced(byMilliseconds: 5000)) == .none)
        #expect(machine.becameWritable(.upstream) == .none)
    }
}
