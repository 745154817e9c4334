internal import FoundationEssentials
internal import Interlock
internal import InterlockCore
internal import SidecarListeners
internal import SidecarSettings
internal import NIOCore
internal import NIOHTTP1

/// The HTTP API parses a request or answers with a valid problem. The proxy sends no request outside a service's base
/// URL.
enum HTTPProperties {
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        let end = input.firstIndex(of: UInt8(ascii: "\n")) ?? input.endIndex
        // NIO's parser never delivers these characters.
        let target = String(decoding: input[..<end].filter { $0 != UInt8(ascii: "\r") && $0 != 0 }, as: UTF8.self)
        try checkTarget(target)
        try checkBody(Array(input[min(end + 1, input.endIndex)...]))
        try checkFields(target)
    }

    /// Returns the result of `read`; `nil` if the request was rejected with a valid problem.
    private static func reading<Value>(_ read: () throws -> Value) throws(FuzzFinding) -> Value? {
        do {
            return try read()
        } catch let problem as HTTPProblem {
            try checkProblem(problem)
            return nil
        } catch {
            throw FuzzFinding("a request was rejected with \(error)")
        }
    }

    private static func checkProblem(_ problem: HTTPProblem) throws(FuzzFinding) {
        try expect(400..<500 ~= problem.status.code, "a request was rejected with \(problem.status)")
        try expect((1...2048).contains(problem.detail.utf8.count), "a problem has a detail of \(problem.detail.utf8.count) bytes")
        let written = (try? problem.json()) ?? Data()
        guard case .object(let members)? = try? JSONDecoder().decode(JSONValue.self, from: written),
            members["status"] == .integer(Int64(problem.status.code)), members["detail"] == .string(problem.detail)
        else { throw FuzzFinding("a problem was written as \(String(decoding: written, as: UTF8.self))") }
    }

    // MARK: The target

    private static func checkTarget(_ target: String) throws(FuzzFinding) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        for segment in (parts.first ?? "").split(separator: "/") { try checkDecoding(segment) }
        let query = parts.count == 2 ? parts[1] : nil
        _ = try reading {
            let query = try HTTPQuery(query, knownNames: ["cursor", "match", "count", "hash", "ttl", "subject"])
            _ = query.text("match")
            return (try query.integer("count", in: 1...1000), try query.integer("ttl", in: 1...1_000_000_000))
        }
        try checkProxying(target)
    }

    /// Checks that text is decoded exactly once, and unambiguously.
    private static func checkDecoding(_ text: Substring) throws(FuzzFinding) {
        guard let decoded = PercentEncoding.decode(text) else {
            return try expect(text.utf8.contains(UInt8(ascii: "%")), "\(text) cannot be decoded")
        }
        try expect(text.utf8.contains(UInt8(ascii: "%")) || decoded == text, "\(text) was decoded to \(decoded)")
        let digits = Array("0123456789ABCDEF")
        let encoded = decoded.utf8.map { "%\(digits[Int($0 >> 4)])\(digits[Int($0 & 15)])" }.joined()
        let again = PercentEncoding.decode(encoded[...])
        try expect(again.map { $0.utf8.elementsEqual(decoded.utf8) } == true, "\(decoded), encoded, is \(again ?? "nothing")")
    }

    private static let base = UpstreamBase("https://upstream.example:8443/api/v2/")

    private static func checkProxying(_ text: String) throws(FuzzFinding) {
        let suffix = text.hasPrefix("/") ? text.dropFirst() : text[...]
        let target: ProxyTarget
        do {
            target = try ProxyTarget(ProxyTarget.prefix + suffix)
        } catch {
            return try checkProblem(HTTPProblem(.invalid, error.description))
        }
        for part in [target.path, target.query].compactMap(\.self) {
            try expect(part.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "#") }, "\(text): \(part)")
        }
        guard let full = base?.target(target), let url = URL(string: "https://upstream.example:8443" + full),
            url.host == "upstream.example", url.port == 8443
        else { throw FuzzFinding("\(text) was accepted but has no URL: \(target)") }
        try expect(full.hasPrefix("/api/v2/"), "\(text) leads to \(full)")
        var path = Substring(url.path(percentEncoded: true))
        // A server may decode the path this often.
        for _ in 0..<2 {
            try expect(!path.split(whereSeparator: { "/\\".contains($0) }).contains(".."), "\(text) leads to \(full)")
            guard let decoded = PercentEncoding.decode(path) else { break }
            path = decoded[...]
        }
    }

    // MARK: The body

    private static func checkBody(_ body: [UInt8]) throws(FuzzFinding) {
        let buffer = ByteBuffer(bytes: body)
        _ = try reading {
            let body = try LockBody(ResourceName("lock"), JSONFields(reading: buffer, knownNames: LockBody.fields))
            _ = try (body.others ?? []).map { try ResourceName($0.text) }
            return body.request.ttlMilliseconds
        }
        let call = try reading { try CallBody(JSONFields(reading: buffer, knownNames: CallBody.fields)) }
        if let call {
            try expect(LimitRequest.costRange.contains(call.cost), "a call costs \(call.cost)")
            try expect(
                (0...RequestLimits.maximumMilliseconds).contains(call.waitMilliseconds),
                "a call waits \(call.waitMilliseconds) ms")
        }
        let decoded = try? JSONDecoder().decode(JSONValue.self, from: Data(body))
        let fast = try? JSONValue(reading: body, maximumDepth: 64)
        try expect(fast == nil || fast == decoded, "\(String(decoding: body, as: UTF8.self)) is read in two ways")
        guard let document = decoded else { return }
        let written = (try? document.json()) ?? Data()
        var fastWritten = ByteBuffer()
        document.write(into: &fastWritten)
        try expect(Data(fastWritten.readableBytesView) == written, "\(document) is written in two ways")
        let read = try? JSONDecoder().decode(JSONValue.self, from: written)
        try expect(read == document, "\(document) was written as \(String(decoding: written, as: UTF8.self))")
    }

    // MARK: Fields

    private static func checkFields(_ text: String) throws(FuzzFinding) {
        if let pause = RetryAfter.milliseconds(text, now: 1_800_000_000) {
            try expect((0...RetryAfter.maximumSeconds * 1000).contains(pause), "Retry-After: \(text) is \(pause) ms")
        }
        if let second = HTTPDate.second(text) {
            let written = HTTPDate.text(second: second)
            try expect(HTTPDate.second(written) == second, "\(text) is second \(second), which is \(written)")
        }
    }
}
