import Glibc
import InterlockProcesses
import InterlockTesting
import Testing

@testable import InterlockSidecar

@Suite("Service manager")
struct SystemdTests {
    @Test(
        "The service manager is found by its variables",
        arguments: [
            (["NOTIFY_SOCKET": "/run/systemd/notify"], SystemdEnvironment(address: .path("/run/systemd/notify"))),
            (["NOTIFY_SOCKET": "@notify"], SystemdEnvironment(address: .abstract("notify"))),
            (
                ["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "10000000"],
                SystemdEnvironment(address: .path("/n"), watchdog: .seconds(10))
            ),
            (
                ["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7"],
                SystemdEnvironment(address: .path("/n"), watchdog: .seconds(10))
            ),
            (
                ["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "8"],
                SystemdEnvironment(address: .path("/n"))
            ),
            (["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"], SystemdEnvironment(address: .path("/n"))),
            (["NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "soon"], SystemdEnvironment(address: .path("/n"))),
        ] as [([String: String], SystemdEnvironment)]
    )
    func serviceManagerIsFoundByVariables(variables: [String: String], manager: SystemdEnvironment) {
        #expect(SystemdEnvironment(environment: variables, processID: 7) == manager)
    }

    @Test(
        "The service manager is absent without a usable socket",
        arguments: ["", "/", "@", "vsock:2:1234", "run/notify", "/" + String(repeating: "n", count: 107)]
    )
    func unusableSocket(name: String) {
        #expect(SystemdEnvironment(environment: ["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1"], processID: 7) == nil)
        #expect(SystemdEnvironment(environment: ["WATCHDOG_USEC": "1"], processID: 7) == nil)
    }

    @Test("The service manager is notified once of readiness, of each reload and of the end")
    func serviceManagerIsNotifiedOnceOfReadiness() {
        var report = SystemdStatus()
        #expect(report.redisChecked(.unreachable(nil)) == [.alive])
        #expect(report.listenersOpened() == [.ready, .status("Serving without Redis")])
        #expect(report.listenersOpened().isEmpty)
        #expect(report.redisConnected() == [.status("Serving; Redis is connected")])
        #expect(report.redisChecked(.connected) == [.alive])
        #expect(report.redisChecked(.unreachable("closed")) == [.alive, .status("Serving without Redis: closed")])
        #expect(report.reloadBegan(atMicroseconds: 42) == [.reloading(atMicroseconds: 42)])
        #expect(report.reloadEnded(failure: nil) == [.ready])
        #expect(report.shutdownBegan() == [.stopping, .status("Shutting down")])
        #expect(report.redisChecked(.unreachable("closed")) == [.alive])
        #expect(report.shutdownBegan().isEmpty)
    }

    @Test("The service manager gets the reason for a failed reload until one succeeds")
    func failedReload() {
        var report = SystemdStatus()
        _ = report.redisChecked(.connected)
        _ = report.listenersOpened()
        let failed = ". The last reload failed; the old configuration stays in effect: no such file"
        #expect(report.reloadEnded(failure: "no such file") == [.ready, .status("Serving; Redis is connected" + failed)])
        #expect(report.redisChecked(.unreachable("gone")) == [.alive, .status("Serving without Redis: gone" + failed)])
        #expect(report.reloadEnded(failure: nil) == [.ready, .status("Serving without Redis: gone")])
    }

    @Test("The service manager is not notified of a reload before the start or after the stop")
    func reloadOutsideOfService() {
        var report = SystemdStatus()
        #expect(report.reloadBegan(atMicroseconds: 1).isEmpty)
        #expect(report.reloadEnded(failure: nil).isEmpty)
        _ = report.listenersOpened()
        _ = report.shutdownBegan()
        #expect(report.reloadBegan(atMicroseconds: 2).isEmpty)
        #expect(report.reloadEnded(failure: nil).isEmpty)
        #expect(report.listenersOpened().isEmpty)
    }

    @Test("The service manager receives one assignment per line")
    func serviceManagerReceivesOneAssignmentPerLine() {
        let lines: [SystemdStatus.Line] = [
            .ready, .reloading(atMicroseconds: 7), .stopping, .alive, .status("two\nlines"),
        ]
        #expect(
            lines.map(\.text) == [
                "READY=1", "RELOADING=1\nMONOTONIC_USEC=7", "STOPPING=1", "WATCHDOG=1", "STATUS=two lines",
            ])
    }

    @Test("The service manager gets datagrams at a path and at an abstract name", arguments: [false, true])
    func datagrams(isAbstract: Bool) throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let name = folder.path + "/notify"
        let listener = try DatagramListener(at: name, isAbstract: isAbstract)
        let manager = try #require(
            SystemdEnvironment(environment: ["NOTIFY_SOCKET": isAbstract ? "@" + name : name], processID: 1))
        let socket = try #require(NotifySocket(to: manager.address))
        #expect(socket.send("READY=1\nSTATUS=one", waits: true) == nil)
        #expect(socket.send("WATCHDOG=1", waits: false) == nil)
        #expect(listener.next() == "READY=1\nSTATUS=one")
        #expect(listener.next() == "WATCHDOG=1")
        #expect(listener.next() == nil)
    }

    @Test("A service manager that has exited or does not read does not delay the sidecar")
    func unreadSocket() throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let socket = try #require(NotifySocket(to: .path(folder.path + "/notify")))
        #expect(socket.send("WATCHDOG=1", waits: false) == String(cString: strerror(ENOENT)))
        let listener = try DatagramListener(at: folder.path + "/notify")
        // A socket's queue is limited: to 10 messages by default, but the system may allow more.
        let failure = (1...100_000).lazy.compactMap { _ in socket.send("WATCHDOG=1", waits: false) }.first
        #expect(failure == String(cString: strerror(EAGAIN)))
        #expect(listener.next() == "WATCHDOG=1")
    }
}
