internal import AsyncHTTPClient
internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore

/// The HTTP clients of all probes: one for each connect timeout, because each keeps the system's certificates in memory.
final class ProbeClients: Sendable {
    let eventLoopGroup: any EventLoopGroup
    private let clients = NIOLockedValueBox<[Duration: HTTPClient]>([:])

    init(eventLoopGroup: any EventLoopGroup) {
        self.eventLoopGroup = eventLoopGroup
    }

    /// The client that makes a service's probes. O(1).
    func client(for settings: ProbeSettings) -> HTTPClient {
        // After the probe's own deadline, and before the next probe: an attempt that is left behind would fail that one too.
        let connectTimeout = (settings.timeout + settings.interval) / 2
        return clients.withLockedValue { clients in
            if let client = clients[connectTimeout] { return client }
            let client = HTTPClient(
                eventLoopGroupProvider: .shared(eventLoopGroup), configuration: Self.configuration(connectTimeout: connectTimeout)
            )
            clients[connectTimeout] = client
            return client
        }
    }

    /// Ends them all. No probe may be under way.
    func shutDown() async {
        let ended = clients.withLockedValue { clients in
            defer { clients = [:] }
            return Array(clients.values)
        }
        // A client that was shut down before is all that can be thrown.
        for client in ended { try? await client.shutdown() }
    }

    /// Redirects are judged and not followed, and a failed connection is not tried again. Connections are not used twice, because
    /// the requests say so; one that stood too late for its own is soon closed.
    private static func configuration(connectTimeout: Duration) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        configuration.timeout.connect = TimeAmount(connectTimeout)
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.connectionPool.idleTimeout = .milliseconds(10)
        // Services behind one gateway do not wait for each other.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1000
        return configuration
    }
}
