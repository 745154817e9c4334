internal import AsyncHTTPClient
internal import FoundationEssentials
internal import Glibc
internal import InterlockClient
internal import InterlockJudge
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// Sends requests through the guarded proxies of sidecars. Confined to its event loop.
final class ProxyDoor {
    private struct Route: Hashable {
        var sidecar: Int
        var service: Int
    }

    /// Of a refusal's body.
    private struct Problem: Decodable {
        var code: String
        var retry_after_ms: Int64?
    }

    private static let problemType = "application/problem+json"

    private let eventLoop: any EventLoop
    private let client: HTTPClient
    private var requests: [Route: HTTPClient.Request] = [:]

    /// - Throws: `LoadError` when a sidecar's address makes no URL.
    init(plan: LoadPlan, eventLoop: any EventLoop) throws(LoadError) {
        self.eventLoop = eventLoop
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow, timeout: .init(connect: .seconds(2)))
        // As many as there are clients may be under way at one time, and no more.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = plan.clients
        configuration.httpVersion = .http1Only
        var requests: [Route: HTTPClient.Request] = [:]
        for sidecar in plan.sidecars {
            guard let http = sidecar.http else { continue }
            let host = http.host.contains(":") ? "[\(http.host)]" : http.host
            let scheme = if case .tls = sidecar.door.address { "https" } else { "http" }
            for service in plan.services.proxied {
                let url = "\(scheme)://\(host):\(http.port)/proxy/\(plan.services.rules[service].name)/"
                guard var request = try? HTTPClient.Request(url: url) else {
                    throw LoadError("\(url) is no URL that a request can be sent to")
                }
                if let key = sidecar.door.apiKey { request.headers.add(name: "X-Api-Key", value: key) }
                requests[Route(sidecar: sidecar.number, service: service)] = request
            }
        }
        self.requests = requests
        client = HTTPClient(eventLoopGroup: eventLoop, configuration: configuration)
    }

    /// `completion` is called once, on the event loop.
    func get(_ service: Int, sidecar: Int, timeout: TimeAmount, completion: @escaping (OperationEnding) -> Void) {
        guard let request = requests[Route(sidecar: sidecar, service: service)] else {
            return completion(.failed(code: OperationEnding.notConnected))
        }
        client.execute(request: request, eventLoop: .delegateAndChannel(on: eventLoop), deadline: .now() + timeout)
            .hop(to: eventLoop).assumeIsolated().whenComplete { result in
                switch result {
                case .success(let response): completion(Self.ending(response))
                case .failure(let error): completion(Self.ending(error))
                }
            }
    }

    func close() -> EventLoopFuture<Void> {
        client.shutdown().hop(to: eventLoop)
    }

    /// What the sidecar says itself is a problem with one of its codes; all else is the upstream's.
    private static func ending(_ response: HTTPClient.Response) -> OperationEnding {
        let status = Int(response.status.code)
        guard response.headers.first(name: "Content-Type")?.hasPrefix(problemType) ?? false, let body = response.body,
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(body.readableBytesView))
        else { return .done(.passed(status: status)) }
        switch problem.code {
        case "limited", "open", "busy":
            return .refused(Refusal(reason: problem.code, retryAfter: problem.retry_after_ms ?? -1))
        default:
            return .failed(code: problem.code.uppercased())
        }
    }

    private static func ending(_ error: any Error) -> OperationEnding {
        if error is NIOConnectionError || (error as? IOError)?.errnoCode == ECONNREFUSED {
            return .failed(code: OperationEnding.notConnected)
        }
        switch error as? HTTPClientError {
        case .deadlineExceeded, .readTimeout: return .unknown(reason: OperationEnding.timedOut)
        case .connectTimeout, .getConnectionFromPoolTimeout: return .failed(code: OperationEnding.notConnected)
        default: return .unknown(reason: OperationEnding.answerLost)
        }
    }
}

extension OperationEnding {
    /// The code of what never left, because its sidecar was not connected.
    static let notConnected = "not-connected"
    /// The answer did not come in time.
    static let timedOut = "timed-out"
    /// The connection was lost before the answer.
    static let answerLost = "answer-lost"

    /// The reply of a call was none of those it can have.
    static let unreadable = OperationEnding.unknown(reason: "unreadable")

    init(_ error: SidecarClientError) {
        self =
            switch error.code {
            case .notConnected, .connectionFailed, .overloaded: .failed(code: Self.notConnected)
            case .timedOut: .unknown(reason: Self.timedOut)
            case .answerLost: .unknown(reason: Self.answerLost)
            // There was an answer that cannot be understood.
            case _ where !error.isAnswer: Self.unreadable
            case .invalid: .failed(code: Self.invalid(error.message))
            // What nobody has foreseen is said in full, but for what is different each time.
            case .other: .failed(code: "ERR: " + error.message.split(separator: " ").prefix(16).joined(separator: " "))
            default: .failed(code: error.code.rawValue)
            }
    }

    /// What was asked for was a mistake, of the harness or of the sidecar: its report says which. Without the names in it, of which
    /// there are many.
    private static func invalid(_ message: String) -> String {
        let words = message.split(separator: " ").prefix { $0 != "of" && $0.last != ":" && $0.last != ";" }
        return "INVALID: \(words.joined(separator: " "))"
    }

    /// A sidecar has answered: how long that took is a latency.
    var isAnswer: Bool {
        switch self {
        case .done, .refused: true
        case .failed(let code): code != Self.notConnected
        case .unknown: false
        }
    }
}

extension Refusal {
    /// As the doors word it; `retryAfter` in ms.
    init(reason: String, retryAfter: Int64) {
        self =
            switch reason {
            case "limited": .limited(retryAfter: retryAfter)
            case "open": .open(retryAfter: retryAfter)
            case "busy": .busy(retryAfter: retryAfter)
            default: .other(reason)
            }
    }
}
