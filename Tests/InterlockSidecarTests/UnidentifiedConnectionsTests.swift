import Testing

@testable import SidecarListeners

@Suite("Connections of unauthenticated clients")
struct UnidentifiedConnectionsTests {
    private final class Connection {}

    @Test("Unauthenticated connections are evicted oldest first, and authenticated ones stay")
    func order() {
        var connections = UnidentifiedConnections<Connection>(limit: 2)
        let all = (0..<4).map { _ in Connection() }
        for connection in all { connections.add(connection, now: 0) }
        #expect(connections.isOverLimit)
        #expect(connections.makeRoom(nowNanoseconds: 0) === all[0])
        connections.remove(all[2])
        #expect(!connections.isOverLimit && connections.count == 2)
        let later = UnidentifiedConnections<Connection>.graceNanoseconds
        #expect(connections.makeRoom(nowNanoseconds: later - 1) == nil)
        #expect(connections.makeRoom(nowNanoseconds: later) === all[1])
        #expect(connections.makeRoom(nowNanoseconds: later) === all[3])
        #expect(connections.makeRoom(nowNanoseconds: later) == nil)
        connections.add(all[2], now: 0)
        connections.add(all[2], now: 1)
        #expect(connections.count == 1)
        #expect(connections.makeRoom(nowNanoseconds: later) === all[2])
    }

    @Test("Unauthenticated connections have no separate limit by default")
    func unbounded() {
        var connections = UnidentifiedConnections<Connection>(limit: nil)
        let all = (0..<1000).map { _ in Connection() }
        for connection in all { connections.add(connection, now: 0) }
        #expect(!connections.isOverLimit)
    }
}
