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

    /// A violation found in an answer.
    struct Finding {
        var invariant: Invariant
        var words: String
    }

    /// The JSON body of a refusal.
    private struct Problem: Decodable {
        var code: String
        var retry_after_ms: Int64?
    }

    /// The codes of the sidecar's own answers, with their statuses (docs/reference/proxy.md, "Refusals and failures").
    private static let statuses = [
        "limited": 429, "upstream_failed": 502, "open": 503, "busy": 503, "unavailable": 503, "upstream_timeout": 504,
    ]
    /// The code of the answer to a client that does not finish its request in time (docs/reference/errors.md).
    private static let cancelled = "cancelled"

    /// The unique number of the call.
    let number: Int
    let service: String
    let method: Method
    let body: ByteBuffer?
    let isChunked: Bool
    /// The number of writes that carry the body.
    let parts: Int
    /// Whether the request has `Expect: 100-continue`, so that its body waits for 100 Continue.
    let awaitsContinue: Bool
    let endsConnection: Bool
    let tenant: Int?

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
        parts = isSimple || random.happens(0.5) ? 1 : Int.random(in: 2...5, using: &random)
        awaitsContinue = hasBody && !isSimple && random.happens(0.15)
        endsConnection = !isSimple && random.happens(0.04)
    }

    // MARK: The request

    /// The head of the request.
    var head: ByteBuffer {
        var text = """
            \(method.rawValue) /proxy/\(service)/calls/\(number) HTTP/1.1\r
            Host: localhost:7380\r
            X-Call: \(number)\r
            X-Size: \(body?.readableBytes ?? 0)\r

            """
        if let tenant { text += "Interlock-Subject: t\(tenant)\r\n" }
        if endsConnection { text += "Connection: close\r\n" }
        if awaitsContinue { text += "Expect: 100-continue\r\n" }
        if let body {
            text += isChunked ? "Transfer-Encoding: chunked\r\n" : "Content-Length: \(body.readableBytes)\r\n"
        } else if method == .post || method == .put {
            text += "Content-Length: 0\r\n"
        }
        return ByteBuffer(string: text + "\r\n")
    }

    /// The writes that follow the head.
    var bodyWrites: [ByteBuffer] {
        guard let body else { return [] }
        let parts = body.parts(parts)
        guard isChunked else { return parts }
        return parts.enumerated().map { index, part in
            var chunk = ByteBuffer(string: String(part.readableBytes, radix: 16) + "\r\n")
            chunk.writeImmutableBuffer(part)
            chunk.writeString(index == parts.count - 1 ? "\r\n0\r\n\r\n" : "\r\n")
            return chunk
        }
    }

    // MARK: The answer

    /// The ending of a call whose response does not show whether the service was called. The call may have counted
    /// against the limits, and the sidecar is not at fault.
    private static let mayHaveBeenMade = OperationEnding.unknown(reason: OperationEnding.vanished)

    /// Judges a complete answer.
    func judge(_ answer: HTTPWireResponse) -> (ending: OperationEnding, finding: Finding?) {
        let informational = answer.informational.contains(100) && !awaitsContinue
        let unrequested = informational ? finding(.answers, "received 100 Continue without requesting it") : nil
        if answer["interlock-fallback"] != nil { return (Self.mayHaveBeenMade, unrequested ?? fallbackFinding(answer)) }
        guard answer["content-type"]?.hasPrefix("application/problem+json") ?? false else {
            return (.done(.passed(status: answer.status)), unrequested ?? passedFinding(answer))
        }
        return method == .head ? judgeRefusedHead(answer) : judgeProblem(answer)
    }

    /// Checks a configured answer, which the sidecar gives for calls that cannot be made.
    private func fallbackFinding(_ answer: HTTPWireResponse) -> Finding? {
        let body = method == .head ? "" : APIUse.fallback
        if answer.status == 200, answer.body.elementsEqual(body.utf8) { return nil }
        return finding(.bytes, "has a fallback with status \(answer.status) and \(answer.body.count) bytes")
    }

    /// Checks an upstream's answer, which must reach the client unchanged.
    private func passedFinding(_ answer: HTTPWireResponse) -> Finding? {
        if let finding = partFinding(answer) { return finding }
        if answer[NumberedBody.statusField] != "\(answer.status)" {
            return finding(.bytes, "has status \(answer.status); its service sent \(answer[NumberedBody.statusField] ?? "none")")
        }
        if answer["interlock-service"] != service {
            return finding(.bytes, "is from service \(answer["interlock-service"] ?? "none") instead of \(service)")
        }
        if method != .head, let size = answer[NumberedBody.sizeField], size != "\(answer.body.count)" {
            return finding(.bytes, "ends cleanly after \(answer.body.count) of \(size) bytes")
        }
        return nil
    }

    /// Checks the part of an answer that arrived before its connection ended.
    func partFinding(_ answer: HTTPWireResponse) -> Finding? {
        let isProblem = answer["content-type"]?.hasPrefix("application/problem+json") ?? false
        if isProblem || answer["interlock-fallback"] != nil { return nil }
        if answer[NumberedBody.numberField] != "\(number)" {
            let other = answer[NumberedBody.numberField] ?? "none"
            return finding(.bytes, "received the answer of call \(other), with status \(answer.status)")
        }
        guard let stray = NumberedBody.firstStrayByte(in: answer.body, of: number) else { return nil }
        return finding(.bytes, "differs at byte \(stray) of its body: \(NumberedBody.excerpt(answer.body, at: stray))")
    }

    /// Judges a refusal of a `HEAD` request, which lacks the body with the reason.
    private func judgeRefusedHead(_ answer: HTTPWireResponse) -> (ending: OperationEnding, finding: Finding?) {
        let isKnown = Self.statuses.values.contains(answer.status)
        return (Self.mayHaveBeenMade, isKnown ? nil : finding(.answers, "was refused with \(answer.status)"))
    }

    private func judgeProblem(_ answer: HTTPWireResponse) -> (ending: OperationEnding, finding: Finding?) {
        guard let problem = try? JSONDecoder().decode(Problem.self, from: Data(answer.body)) else {
            let text = String(decoding: answer.body.prefix(200), as: UTF8.self)
            return (.failed(code: "?"), finding(.bytes, "is not a problem document: \(text.debugDescription)"))
        }
        let status = problem.code == Self.cancelled && body != nil ? 503 : Self.statuses[problem.code]
        let unknown = status == answer.status ? nil : finding(.answers, "got \(answer.status) \(problem.code)")
        let retryAfter = problem.retry_after_ms ?? -1
        switch problem.code {
        case "limited": return (.refused(.limited(retryAfter: retryAfter)), unknown)
        case "open": return (.refused(.open(retryAfter: retryAfter)), unknown)
        case "busy": return (.refused(.busy(retryAfter: retryAfter)), unknown)
        case "upstream_failed", "upstream_timeout", Self.cancelled: return (Self.mayHaveBeenMade, unknown)
        default: return (.failed(code: problem.code.uppercased()), unknown)
        }
    }

    func finding(_ invariant: Invariant, _ words: String) -> Finding {
        Finding(invariant: invariant, words: "\(method.rawValue) of call \(number) to \(service) \(words)")
    }
}
