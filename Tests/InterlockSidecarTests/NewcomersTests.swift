import Testing

@testable import SidecarListeners

@Suite("Connections of unauthenticated clients")
struct NewcomersTests {
    private final class Connection {}

    @Test("Unauthenticated connections are evicted oldest first, and authenticated ones stay")
    func order() {
        var newcomers = UnidentifiedConnections<Connection>(most: 2)
        let all = (0..<4).map { _ in Connection() }
        for connection in all { newcomers.add(connection, now: 0) }
        #expect(newcomers.areTooMany)
        #expect(newcomers.makeRoom(now: 0) === all[0])
        newcomers.remove(all[2])
        #expect(!newcomers.areTooMany && newcomers.count == 2)
        let later = UnidentifiedConnections<Connection>.grace
        #expect(newcomers.makeRoom(now: later - 1) == nil)
        #expect(newcomers.makeRoom(now: later) === all[1])
        #expect(newcomers.makeRoom(now: later) === all[3])
        #expect(newcomers.makeRoom(now: later) == nil)
        newcomers.add(all[2], now: 0)
        newcomers.add(all[2], now: 1)
        #expect(newcomers.count == 1)
        #expect(newcomers.makeRoom(now: later) === all[2])
    }

    @Test("Unauthenticated connections have no limit of their own by default")
    func unbounded() {
        var newcomers = UnidentifiedConnections<Connection>(most: nil)
        let all = (0..<1000).map { _ in Connection() }
        for connection in all { newcomers.add(connection, now: 0) }
        #expect(!newcomers.areTooMany)
    }
}
