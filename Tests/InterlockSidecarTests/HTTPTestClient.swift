import FoundationEssentials
import NIOCore

@testable import SidecarListeners

/// A client that speaks HTTP/1.1 byte by byte, including requests that no well-behaved client sends.
struct HTTPTestClient: Sendable {
    let port: Int

    struct Reply: Sendable {
        var status: Int
        /// The header fields by lower-case name.
        var headers: [String: String]
        var body: String

        /// The members of the body's JSON object.
        var json: [String: JSONValue] {
            guard case .object(let members) = try? JSONDecoder().decode(JSONValue.self, from: Data(body.utf8)) else { return [:] }
            return members
        }

        func text(_ member: String) -> String? {
            guard case .string(let text) = json[member] else { return nil }
            return text
        }

        func integer(_ member: String) -> Int64? {
            guard case .integer(let integer) = json[member] else { return nil }
            return integer
        }

        /// The leases in the list `leases`, each in the form of the reply to a single acquire.
        var leases: [Reply] {
            guard case .array(let list) = json["leases"] else { return [] }
            return list.compactMap { element -> Reply? in
                guard let data = try? JSONEncoder().encode(element) else { return nil }
                return Reply(status: status, headers: [:], body: String(decoding: data, as: UTF8.self))
            }
        }
    }

    struct NotHTTP: Error {
        var text: String
    }

    /// Sends one request on its own connection.
    func send(
        _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:]
    ) async throws -> Reply {
        try Self.parse(try await exchange(Self.request(method, path, body, headers: headers, port: port, closing: true)))
    }

    /// Sends bytes and reads until the other side closes.
    /// - Parameter onReceipt: a closure that receives the entire text so far, each time something arrives.
    func exchange(
        _ request: String, onReceipt: @Sendable (_ received: String) async throws -> Void = { _ in }
    ) async throws -> String {
        try await connected { inbound, outbound in
            try await outbound.write(ByteBuffer(string: request))
            var received = ""
            do {
                for try await part in inbound {
                    received += String(buffer: part)
                    try await onReceipt(received)
                }
            } catch {
                print("\(request.debugDescription) failed with \(error), after these bytes: \(received.debugDescription)")
                throw error
            }
            return received
        }
    }

    /// Sends a request, passes all text received to `isEnough` until it returns `true`, and closes the connection.
    func follow(
        _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:],
        until isEnough: @Sendable (_ received: String) async throws -> Bool
    ) async throws {
        let request = Self.request(method, path, body, headers: headers, port: port, closing: false)
        try await connected { inbound, outbound in
            try await outbound.write(ByteBuffer(string: request))
            var received = ""
            if try await isEnough(received) { return }
            for try await part in inbound {
                received += String(buffer: part)
                if try await isEnough(received) { return }
            }
            throw NotHTTP(text: received)
        }
    }

    static func request(
        _ method: String, _ path: String, _ body: String?, headers: [String: String], port: Int, closing: Bool
    ) -> String {
        var fields = ["Host": "127.0.0.1:\(port)"]
        if closing { fields["Connection"] = "close" }
        if let body {
            fields["Content-Length"] = "\(body.utf8.count)"
            fields["Content-Type"] = "application/json"
        }
        fields.merge(headers) { _, given in given }
        let lines = fields.filter { !$0.value.isEmpty }.map { "\($0.key): \($0.value)\r\n" }.sorted().joined()
        return "\(method) \(path) HTTP/1.1\r\n\(lines)\r\n\(body ?? "")"
    }

    static func parse(_ text: String) throws -> Reply {
        guard let end = text.firstRange(of: "\r\n\r\n") else { throw NotHTTP(text: text) }
        let lines = text[..<end.lowerBound].split(separator: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count > 1, let status = Int(words[1]) else { throw NotHTTP(text: text) }
        if status != 101, 100..<200 ~= status { return try parse(String(text[end.upperBound...])) }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { throw NotHTTP(text: text) }
            headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
        return Reply(status: status, headers: headers, body: String(text[end.upperBound...]))
    }

    /// Returns the data of the first server-sent event of a type as a reply's body; `nil` if it has not fully arrived.
    static func event(_ type: String, in received: String) -> Reply? {
        guard let start = received.firstRange(of: "event: \(type)\ndata: ") else { return nil }
        let rest = received[start.upperBound...]
        guard let end = rest.firstRange(of: "\n\n") else { return nil }
        return Reply(status: 0, headers: [:], body: String(rest[..<end.lowerBound]))
    }

    private typealias Inbound = NIOAsyncChannelInboundStream<ByteBuffer>
    private typealias Outbound = NIOAsyncChannelOutboundWriter<ByteBuffer>

    private func connected<Result: Sendable>(
        _ body: @Sendable (Inbound, Outbound) async throws -> Result
    ) async throws -> Result {
        let channel = try await RawConnection.connect(to: port)
        return try await channel.executeThenClose { inbound, outbound in try await body(inbound, outbound) }
    }
}
