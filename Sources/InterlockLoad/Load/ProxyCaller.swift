internal import FoundationEssentials
internal import Glibc
internal import InterlockClient
internal import InterlockHTTP
internal import InterlockJudge
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// Sends requests through the guarded proxies of the sidecars. Confined to the event loop of the run.
final class ProxyCaller {
    private struct Route: Hashable {
        var sidecar: Int
        var service: Int
    }

    /// The body of a refusal.
    private struct Problem: Decodable {
        var code: String
        var retry_after_ms: Int64?
    }

    private static let problemType = "application/problem+json"

    /// The maximum number of bytes that are kept of a body. Refusals are smaller, so a longer body comes from an
    /// upstream.
    private static let maximumBodySize = 1024 * 1024

    private let eventLoop: any EventLoop
    /// The connection pools, by sidecar number.
    private let pools: [Int: HTTPConnectionPool]
    private let requests: [Route: HTTPRequestHead]

    /// Creates a caller for the sidecars and proxied services of a plan.
    /// - Throws: `LoadError` if TLS cannot be set up.
    init(plan: LoadPlan, eventLoop: any EventLoop) throws(LoadError) {
        self.eventLoop = eventLoop
        // Each client has at most one active request.
        let settings = HTTPConnectionPool.Settings(
            connectTimeout: .seconds(2), idleTimeout: .seconds(60), maximumConnections: plan.clients)
        var pools: [Int: HTTPConnectionPool] = [:]
        var requests: [Route: HTTPRequestHead] = [:]
        for sidecar in plan.sidecars {
            guard let http = sidecar.http else { continue }
            let origin = try Self.origin(http, of: sidecar)
            pools[sidecar.number] = HTTPConnectionPool(origin, settings: settings, eventLoop: eventLoop)
            var headers: HTTPHeaders = ["Host": origin.authority]
            if let key = sidecar.resp.apiKey { headers.add(name: "X-Api-Key", value: key) }
            for service in plan.services.proxiedServiceNumbers {
                requests[Route(sidecar: sidecar.number, service: service)] = HTTPRequestHead(
                    version: .http1_1, method: .GET, uri: "/proxy/\(plan.services.rules[service].name)/", headers: headers)
            }
        }
        self.pools = pools
        self.requests = requests
    }

    private static func origin(_ http: SidecarEndpoint.HTTPAddress, of sidecar: SidecarEndpoint) throws(LoadError) -> HTTPOrigin {
        guard case .tls = sidecar.resp.address else { return HTTPOrigin(host: http.host, port: http.port, tls: nil) }
        do {
            return HTTPOrigin(
                host: http.host, port: http.port, tls: try HTTPOrigin.clientTLS(certificateAuthority: nil))
        } catch {
            throw LoadError("cannot use TLS with \(http.host): \(error)")
        }
    }

    /// Sends a GET request to a service. Calls `completion` once, on the event loop.
    func get(_ service: Int, sidecar: Int, timeout: TimeAmount, completion: @escaping (OperationEnding) -> Void) {
        guard let pool = pools[sidecar], let request = requests[Route(sidecar: sidecar, service: service)] else {
            return completion(.failed(code: OperationEnding.notConnected))
        }
        HTTPFetch(request, from: pool, maximumBytes: Self.maximumBodySize) { result in
            switch result {
            case .success(let response): completion(Self.ending(response))
            case .failure(.notConnected): completion(.failed(code: OperationEnding.notConnected))
            case .failure(.timedOut): completion(.unknown(reason: OperationEnding.timedOut))
            case .failure: completion(.unknown(reason: OperationEnding.responseLost))
            }
        }.begin(deadline: .now() + timeout)
    }

    func close() -> EventLoopFuture<Void> {
        for pool in pools.values { pool.close() }
        return eventLoop.makeSucceededVoidFuture()
    }

    /// Converts a response. Only a problem document with a code comes from the sidecar itself. Any other response comes
    /// from the upstream.
    private static func ending(_ response: HTTPFetch.Response) -> OperationEnding {
        let status = Int(response.head.status.code)
        guard response.head.headers.first(name: "Content-Type")?.hasPrefix(problemType) ?? false,
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(response.body.readableBytesView))
        else { return .done(.passed(status: status)) }
        switch problem.code {
        case "limited", "open", "busy":
            return .refused(Refusal(reason: problem.code, retryAfterMilliseconds: problem.retry_after_ms ?? -1))
        default:
            return .failed(code: problem.code.uppercased())
        }
    }
}

extension OperationEnding {
    /// The code of a call that was not sent because its sidecar was not connected.
    static let notConnected = "not-connected"
    /// The reason if no answer arrived in time.
    static let timedOut = "timed-out"
    /// The reason if the connection was lost before the answer.
    static let responseLost = "answer-lost"

    /// The ending of a call whose answer has an unexpected form.
    static let unreadable = OperationEnding.unknown(reason: "unreadable")

    /// Creates the ending of a call that failed or got no answer.
    init(_ error: InterlockError) {
        self =
            switch error.code {
            case .notConnected, .connectionFailed, .overloaded: .failed(code: Self.notConnected)
            case .responseTimedOut: .unknown(reason: Self.timedOut)
            case .responseLost: .unknown(reason: Self.responseLost)
            // The answer of the sidecar cannot be parsed.
            case _ where !error.isFromSidecar: Self.unreadable
            case .invalid: .failed(code: Self.invalid(error.message))
            // The code of an unexpected error is its text, shortened to drop the varying parts.
            case .other: .failed(code: "ERR: " + error.message.split(separator: " ").prefix(16).joined(separator: " "))
            default: .failed(code: error.code.rawValue)
            }
    }

    /// Returns the code for a rejected request, which is a mistake of the harness or of the sidecar. The code contains
    /// the message without its names, which would create many distinct codes.
    private static func invalid(_ message: String) -> String {
        let words = message.split(separator: " ").prefix { $0 != "of" && $0.last != ":" && $0.last != ";" }
        return "INVALID: \(words.joined(separator: " "))"
    }

    /// Whether the sidecar answered. Only then does the duration count as a latency.
    var isResponse: Bool {
        switch self {
        case .done, .refused: true
        case .failed(let code): code != Self.notConnected
        case .unknown: false
        }
    }
}

extension Refusal {
    /// Creates a refusal from the reason in an answer of an API.
    /// - Parameter retryAfterMilliseconds: the time to wait; negative if unknown.
    init(reason: String, retryAfterMilliseconds: Int64) {
        self =
            switch reason {
            case "limited": .limited(retryAfterMilliseconds: retryAfterMilliseconds)
            case "open": .open(retryAfterMilliseconds: retryAfterMilliseconds)
            case "busy": .busy(retryAfterMilliseconds: retryAfterMilliseconds)
            default: .other(reason)
            }
    }
}
