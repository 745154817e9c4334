internal import InterlockJudge
internal import AsyncHTTPClient
internal import FoundationEssentials
internal import Glibc
internal import Hiredis
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
            let scheme = sidecar.door.tls == nil ? "http" : "https"
            for service in plan.services.proxied {
                let url = "\(scheme)://\(host):\(http.port)/proxy/\(plan.services.rules[service].name)/"
                guard var request = try? HTTPClient.Request(url: url) else {
                    throw LoadError("\(url) is no URL that a request can be sent to")
                }
                if let key = sidecar.door.password { request.headers.add(name: "X-Api-Key", value: key) }
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
