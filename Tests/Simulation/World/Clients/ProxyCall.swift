import FoundationEssentials
import InterlockCore
import InterlockJudge
import NIOCore

/// A request through the guarded proxy, and the check of its response.
struct ProxyCall {
    enum Method: String, CaseIterable {
        case get = "GET"
        case head = "HEAD"
        case post = "POST"
        case put = "PUT"
        case delete = "DELETE"
    }

    /// A violation that a response shows.
    struct Finding {
        var invariant: Invariant
        var description: String
    }

    /// The JSON body of a refusal.
    private struct Problem: Decodable {
        var code: String
        var retry_after_ms: Int64?
    }

    /// The codes of the sidecar's own responses, with their statuses (docs/reference/proxy.md, "Refusals and
    /// failures").
    private static let statuses = [
        "limited": 429, "upstream_failed": 502, "open": 503, "busy": 503, "unavailable": 503, "upstream_timeout": 504,
    ]
    /// The code of the response to a client that does not finish its request in time (docs/reference/errors.md).
    private static let cancelled = "cancelled"

    /// The unique number of the call.
    let number: Int
    let service: String
    let method: Method
    let body: ByteBuffer?
    let isChunked: Bool
    /// The number of writes that carry the body.
    let partCount: Int
    /// Whether the request has `Expect: 100-continue`, so that its body waits for 100 Continue.
    let awaitsContinue: Bool
    /// Whether the request has `Connection: close`.
    let endsConnection: Bool
    let tenant: Int?

    /// Draws a call.
    /// - Parameter isSimple: whether the whole request is one write.
    init(_ number: Int, service: String, tenant: Int?, isSimple: Bool, random: inout SeededRandom) {
        self.number = number
        self.service = service
        self.tenant = tenant
        let methods: [Method] = [.get, .get, .get, .head, .post, .post, .put, .delete]
        let method = methods[Int.random(in: methods.indices, using: &random)]
        self.method = method
        let mayHaveBody = method == .post || method == .put || method == .delete && random.happens(0.2)
        let hasBody = mayHaveBody && random.happens(0.85)
        let sizes = random.happens(0.05) ? 2000...120_000 : 1...2000
        body = hasBody ? NumberedBody.make(number, about: Int.random(in: sizes, using: &random)) : nil
        isChunked = random.happens(0.4)
        partCount = isSimple || random.happens(0.5) ? 1 : Int.random(in: 2...5, using: &random)
        awaitsContinue = hasBody && !isSimple && random.happens(0.15)
        endsConnection = !isSimple && random.happens(0.04)
    }

    // MARK: The request

    /// The head of the request.
    var head: ByteBuffer {
        var head = """
            \(method.rawValue) /proxy/\(service)/calls/\(number) HTTP/1.1\r
            Host: localhost:7380\r
            X-Call: \(number)\r
            X-Size: \(body?.readableBytes ?? 0)\r

            """
        if let tenant { head += "Interlock-Subject: t\(tenant)\r\n" }
        if endsConnection { head += "Connection: close\r\n" }
        if awaitsContinue { head += "Expect: 100-continue\r\n" }
        if let body {
            head += isChunked ? "Transfer-Encoding: chunked\r\n" : "Content-Length: \(body.readableBytes)\r\n"
        } else if method == .post || method == .put {
            head += "Content-Length: 0\r\n"
        }
        return ByteBuffer(string: head + "\r\n")
    }

    /// The writes that follow the head.
    var bodyWrites: [ByteBuffer] {
        guard let body else { return [] }
        let parts = body.parts(partCount)
        guard isChunked else { return parts }
        return parts.enumerated().map { index, part in
            var chunk = ByteBuffer(string: String(part.readableBytes, radix: 16) + "\r\n")
            chunk.writeImmutableBuffer(part)
            chunk.writeString(index == parts.count - 1 ? "\r\n0\r\n\r\n" : "\r\n")
            return chunk
        }
    }

    // MARK: The response

    /// The ending of a call whose response does not show whether the service was called. The call may have counted
    /// against the limits, and the sidecar is not at fault.
    private static let mayHaveBeenMade = OperationEnding.unknown(reason: OperationEnding.vanished)

    /// Judges a complete response.
    func judge(_ response: HTTPWireResponse) -> (ending: OperationEnding, finding: Finding?) {
        let isUnrequestedContinue = response.informational.contains(100) && !awaitsContinue
        let continueFinding =
            isUnrequestedContinue ? finding(.answers, "received 100 Continue without requesting it") : nil
        if response["interlock-fallback"] != nil {
            return (Self.mayHaveBeenMade, continueFinding ?? fallbackFinding(response))
        }
        guard response["content-type"]?.hasPrefix("application/problem+json") ?? false else {
            return (.done(.passed(status: response.status)), continueFinding ?? passedFinding(response))
        }
        return method == .head ? judgeRefusedHead(response) : judgeProblem(response)
    }

    /// Checks a configured response, which the sidecar sends for calls that cannot be made.
    private func fallbackFinding(_ response: HTTPWireResponse) -> Finding? {
        let body = method == .head ? "" : APIUse.fallback
        if response.status == 200, response.body.elementsEqual(body.utf8) { return nil }
        return finding(.bytes, "has a fallback with status \(response.status) and \(response.body.count) bytes")
    }

    /// Checks an upstream's response, which must reach the client unchanged.
    private func passedFinding(_ response: HTTPWireResponse) -> Finding? {
        if let finding = partFinding(response) { return finding }
        if response[NumberedBody.statusField] != "\(response.status)" {
            return finding(
                .bytes,
                "has status \(response.status); its service sent \(response[NumberedBody.statusField] ?? "none")")
        }
        if response["interlock-service"] != service {
            return finding(.bytes, "is from service \(response["interlock-service"] ?? "none") instead of \(service)")
        }
        if method != .head, let size = response[NumberedBody.sizeField], size != "\(response.body.count)" {
            return finding(.bytes, "ends cleanly after \(response.body.count) of \(size) bytes")
        }
        return nil
    }

    /// Checks the part of a response that arrived before its connection ended.
    func partFinding(_ response: HTTPWireResponse) -> Finding? {
        let isProblem = response["content-type"]?.hasPrefix("application/problem+json") ?? false
        if isProblem || response["interlock-fallback"] != nil { return nil }
        if response[NumberedBody.numberField] != "\(number)" {
            let other = response[NumberedBody.numberField] ?? "none"
            return finding(.bytes, "received the answer of call \(other), with status \(response.status)")
        }
        guard let stray = NumberedBody.firstStrayByte(in: response.body, of: number) else { return nil }
        return finding(
            .bytes, "differs at byte \(stray) of its body: \(NumberedBody.excerpt(response.body, at: stray))")
    }

    /// Judges a refusal of a `HEAD` request, which lacks the body with the reason.
    private func judgeRefusedHead(_ response: HTTPWireResponse) -> (ending: OperationEnding, finding: Finding?) {
        let isKnown = Self.statuses.values.contains(response.status)
        return (Self.mayHaveBeenMade, isKnown ? nil : finding(.answers, "was refused with \(response.status)"))
    }

    private func judgeProblem(_ response: HTTPWireResponse) -> (ending: OperationEnding, finding: Finding?) {
        guard let problem = try? JSONDecoder().decode(Problem.self, from: Data(response.body)) else {
            let excerpt = String(decoding: response.body.prefix(200), as: UTF8.self)
            return (.failed(code: "?"), finding(.bytes, "is not a problem document: \(excerpt.debugDescription)"))
        }
        let status = problem.code == Self.cancelled && body != nil ? 503 : Self.statuses[problem.code]
        let unknownFinding =
            status == response.status ? nil : finding(.answers, "got \(response.status) \(problem.code)")
        let retryAfterMilliseconds = problem.retry_after_ms ?? -1
        switch problem.code {
        case "limited": return (.refused(.limited(retryAfterMilliseconds: retryAfterMilliseconds)), unknownFinding)
        case "open": return (.refused(.open(retryAfterMilliseconds: retryAfterMilliseconds)), unknownFinding)
        case "busy": return (.refused(.busy(retryAfterMilliseconds: retryAfterMilliseconds)), unknownFinding)
        case "upstream_failed", "upstream_timeout", Self.cancelled: return (Self.mayHaveBeenMade, unknownFinding)
        default: return (.failed(code: problem.code.uppercased()), unknownFinding)
        }
    }

    func finding(_ invariant: Invariant, _ description: String) -> Finding {
        Finding(invariant: invariant, description: "\(method.rawValue) of call \(number) to \(service) \(description)")
    }
}
