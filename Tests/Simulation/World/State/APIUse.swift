import Interlock
import InterlockCore
import InterlockJudge

/// The services behind the proxy, and the clients that do not speak RESP.
struct APIUse {
    /// The services that the first fleet's proxies call, each on its own machine.
    var proxied: [ServiceDefinition] = []
    var proxyClients = 0
    /// The probability that a client of locks, limits or permits uses the HTTP API.
    var http = 0.0

    /// The body of a configured response.
    static let fallback = "instead"

    /// The setup in which all clients use RESP.
    static let respOnly = APIUse()
}

extension APIUse {
    /// Draws the proxied services and the clients that do not speak RESP.
    /// - Parameter stream: a copy of the world's stream. These draws do not advance the original.
    init(_ stream: SeededRandom) {
        var source = stream
        var random = SeededRandom(seed: source.next() &+ 3)
        for _ in 0..<8 { _ = random.next() }
        http = [0, 0, 0.2, 0.5][Int.random(in: 0..<4, using: &random)]
        guard random.happens(0.6) else { return }
        proxied = (0..<Int.random(in: 1...2, using: &random)).map { Self.proxied("web-\($0)", random: &random) }
        proxyClients = Int.random(in: 2...8, using: &random)
    }

    private static func proxied(_ name: String, random: inout SeededRandom) -> ServiceDefinition {
        var service = Profile.service(name, maximumPermitWaitMilliseconds: 1000, random: &random)
        service.probe = nil
        // Most calls should succeed, because a refused call exercises little of the proxy.
        if random.happens(0.7) { service.limits = [] }
        if random.happens(0.7) {
            service.breaker.window = .time(.seconds(2))
            service.breaker.minimumCalls = 200
        }
        service.breaker.openFor = .milliseconds(100)...(.milliseconds(400))
        // The lifetime exceeds the final phase of any world, so that the final check finds every permit that was not
        // returned.
        service.permitLifetime = .seconds(3600)
        var upstream = UpstreamSettings(url: "http://\(name)")
        upstream.speaksHTTP2 = random.happens(0.4)
        upstream.connectTimeout = .milliseconds(Int64.random(in: 100...400, using: &random))
        upstream.firstByteTimeout = .milliseconds(Int64.random(in: 200...800, using: &random))
        upstream.idleTimeout = .milliseconds(Int64.random(in: 200...600, using: &random))
        // The timeout is below the rules' patience.
        upstream.totalTimeout = .milliseconds(Int64.random(in: 600...1800, using: &random))
        upstream.connections.idle = .milliseconds(random.happens(0.5) ? 300 : 5000)
        upstream.connections.maximumAge = random.happens(0.3) ? .seconds(3) : nil
        // A retry takes from the limits again, but the history records only one take.
        upstream.retries.attempts = service.limits.isEmpty ? Int.random(in: 0...2, using: &random) : 0
        upstream.retries.budget = 0.5
        if random.happens(0.2) {
            upstream.fallback = .fixed(status: 200, body: Self.fallback, mediaType: "text/plain")
        }
        service.upstream = upstream
        return service
    }

    /// A description of the setup for the story.
    var description: String {
        var words: [String] = []
        if http > 0 { words.append("\(Int(http * 100)) % of clients speak HTTP") }
        if !proxied.isEmpty {
            let names = proxied.map { "\($0.name)\($0.upstream?.speaksHTTP2 ?? false ? " (HTTP/2)" : "")" }
            words.append("\(proxyClients) clients call \(names.joined(separator: " and ")) through the proxy")
        }
        return words.map { ", \($0)" }.joined()
    }
}
