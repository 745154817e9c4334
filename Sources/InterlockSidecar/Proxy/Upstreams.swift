internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore

/// The services that the proxy has called so far, each as it is configured now.
final class Upstreams: Sendable {
    private let table = NIOLockedValueBox<[String: Upstream]>([:])
    private let eventLoopGroup: any EventLoopGroup

    init(eventLoopGroup: any EventLoopGroup) {
        self.eventLoopGroup = eventLoopGroup
    }

    /// The upstream of a service; a new one when its settings have changed.
    /// - Returns: `nil`: its URL is not one that calls can be made to.
    func upstream(of service: String, _ settings: UpstreamSettings, concurrency: Int?) -> Upstream? {
        table.withLockedValue { table in
            if let known = table[service], known.concurrency == concurrency, known.settings == settings { return known }
            let upstream = Upstream(settings, concurrency: concurrency, eventLoopGroup: eventLoopGroup)
            table[service] = upstream
            return upstream
        }
    }

    /// Drops a service that is no longer there.
    func forget(_ service: String) {
        table.withLockedValue { $0[service] = nil }
    }

    /// Closes all connections.
    func shutDown() async {
        let upstreams = table.withLockedValue { table in
            defer { table = [:] }
            return Array(table.values)
        }
        for upstream in upstreams { await upstream.shutDown() }
    }
}
