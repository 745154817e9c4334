internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOHTTP1

/// The last good responses of a service, served when the service cannot be called. Their number and their size are
/// limited; the least recently used response is evicted first.
final class LastGoodResponses: Sendable {
    /// The cache key: the parts of a request that select its response.
    struct Key: Hashable, Sendable {
        var target: String
        /// The header fields that may affect the response, each as `name: value`.
        var fields: [String] = []
    }

    /// Header fields that are not part of the key. Every other field is part of it, because the service may use the
    /// field to select a user's data, a language or a shop.
    private static let ignoredFields: Set<String> = [
        "accept-charset", "cache-control", "connection", "content-length", "correlation-id", "date", "dnt", "forwarded",
        "host", "if-modified-since", "if-none-match", "keep-alive", "pragma", "priority", "referer", "request-id", "te",
        "traceparent",
        "tracestate", "upgrade-insecure-requests", "user-agent", "via", "x-amzn-trace-id", "x-api-key", "x-b3-parentspanid",
        "x-b3-sampled", "x-b3-spanid", "x-b3-traceid", "x-correlation-id", "x-forwarded-for", "x-forwarded-host",
        "x-forwarded-port", "x-forwarded-proto", "x-real-ip", "x-request-id", "x-request-start",
    ]

    struct Response: Sendable {
        var status: HTTPResponseStatus
        var headers: HTTPHeaders
        var body: ByteBuffer
        var storedAt: NIODeadline

        /// Returns the age of the response in seconds: the time since it was stored, plus the `Age` that it arrived
        /// with (RFC 9111, section 4.2.3).
        /// - Parameter seconds: the seconds since the response was stored.
        func ageSeconds(afterSeconds seconds: Int64) -> Int64 {
            let fieldValue = headers.first(name: "Age").flatMap { Int64($0) } ?? 0
            return seconds + min(max(0, fieldValue), Self.maximumAgeSeconds)
        }

        /// The maximum value of an `Age` field. Larger values are reduced to it (RFC 9111, section 1.2.2).
        private static let maximumAgeSeconds: Int64 = 1 << 31
    }

    /// The maximum size of a stored body, in bytes.
    static let maximumBodyBytes = 256 * 1024
    private static let maximumCount = 256
    private static let maximumBytes = 16 * 1024 * 1024

    private struct Entry {
        var response: Response
        /// The value of `useCount` at the last use.
        var lastUse: UInt64
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        var byteCount = 0
        /// The number of times that a response was stored or served.
        var useCount: UInt64 = 0

        mutating func remove(_ key: Key) {
            guard let entry = entries.removeValue(forKey: key) else { return }
            byteCount -= LastGoodResponses.approximateBytes(key, entry.response)
        }
    }

    private let state = NIOLockedValueBox(State())
    private let maximumAge: TimeAmount

    init(maximumAge: Duration) {
        self.maximumAge = TimeAmount(maximumAge)
    }

    /// Parts of the names of header fields that may contain credentials. The sidecar's own key is not forwarded.
    private static let credentialWords = [
        "auth", "cookie", "credential", "key", "secret", "session", "signature", "token",
    ]

    /// Returns the key of a request whose response may be served to other callers; `nil` unless the request is a GET
    /// without credentials, a range or a body.
    static func key(of request: HTTPRequestHead) -> Key? {
        guard request.method == .GET else { return nil }
        var fields: [String] = []
        for (name, value) in request.headers {
            let name = name.lowercased()
            switch name {
            case "range", "transfer-encoding": return nil
            case "content-length" where value != "0": return nil
            case let name where name != "x-api-key" && credentialWords.contains(where: { name.contains($0) }):
                return nil
            case let name where ignoredFields.contains(name): continue
            default: fields.append("\(name): \(value)")
            }
        }
        return Key(target: request.uri, fields: fields.sorted())
    }

    /// `Cache-Control` directives that restrict a response to one caller, or forbid its later use without revalidation
    /// (RFC 9111, 5.2.2).
    private static let uncacheableDirectives = ["no-store", "private", "no-cache", "must-revalidate", "proxy-revalidate"]

    /// Returns whether a response with this head may be served to other callers. Its body may still prove too large if
    /// the head declares no length.
    static func isStorable(_ status: HTTPResponseStatus, _ headers: HTTPHeaders) -> Bool {
        guard 200..<300 ~= status.code, status != .partialContent, !headers.contains(name: "Set-Cookie"),
            headers.first(name: "Content-Length").flatMap({ Int($0) }) ?? 0 <= maximumBodyBytes
        else { return false }
        let isUncacheable = headers["Cache-Control"].contains { value in
            let value = value.lowercased()
            return uncacheableDirectives.contains { value.contains($0) }
        }
        let varies = headers["Vary"].contains { value in
            !value.lowercased().split(separator: ",").allSatisfy { $0.filter { $0 != " " && $0 != "\t" } == "accept-encoding" }
        }
        return !isUncacheable && !varies
    }

    /// Stores a response. O(n) in the number of stored responses if it evicts another.
    func store(_ response: Response, for key: Key) {
        state.withLockedValue { state in
            state.remove(key)
            state.useCount += 1
            state.entries[key] = Entry(response: response, lastUse: state.useCount)
            state.byteCount += Self.approximateBytes(key, response)
            while state.entries.count > Self.maximumCount || state.byteCount > Self.maximumBytes,
                let oldest = state.entries.min(by: { $0.value.lastUse < $1.value.lastUse })
            {
                state.remove(oldest.key)
            }
        }
    }

    /// Returns the response for this key and the seconds since it was stored; `nil` if it is too old.
    func response(for key: Key, now: NIODeadline) -> (response: Response, ageSeconds: Int64)? {
        state.withLockedValue { state in
            guard let entry = state.entries[key] else { return nil }
            let age = now - entry.response.storedAt
            guard age <= maximumAge else {
                state.remove(key)
                return nil
            }
            state.useCount += 1
            state.entries[key]?.lastUse = state.useCount
            return (entry.response, max(0, age.nanoseconds / 1_000_000_000))
        }
    }

    /// Returns the approximate size of an entry in memory.
    private static func approximateBytes(_ key: Key, _ response: Response) -> Int {
        response.headers.reduce(
            response.body.readableBytes + key.target.utf8.count + key.fields.reduce(256) { $0 + $1.utf8.count + 32 }
        ) {
            $0 + $1.name.utf8.count + $1.value.utf8.count + 32
        }
    }
}

/// Copies a response while it is streamed to the client. Discards the copy if it becomes too large.
struct ResponseRecorder {
    private let responses: LastGoodResponses
    private let key: LastGoodResponses.Key
    private let status: HTTPResponseStatus
    private let headers: HTTPHeaders
    private var body = ByteBuffer()
    private var isTooLarge = false

    /// Returns `nil` if the response must not be stored.
    init?(_ responses: LastGoodResponses?, _ key: LastGoodResponses.Key?, _ status: HTTPResponseStatus, _ headers: HTTPHeaders) {
        guard let responses, let key, LastGoodResponses.isStorable(status, headers) else { return nil }
        self.responses = responses
        self.key = key
        self.status = status
        self.headers = headers
    }

    mutating func record(_ chunk: ByteBuffer) {
        guard !isTooLarge else { return }
        isTooLarge = body.readableBytes + chunk.readableBytes > LastGoodResponses.maximumBodyBytes
        if isTooLarge { body = ByteBuffer() } else { body.writeImmutableBuffer(chunk) }
    }

    /// Stores the complete response, unless it is too large.
    func finish(now: NIODeadline) {
        guard !isTooLarge else { return }
        responses.store(.init(status: status, headers: headers, body: body, storedAt: now), for: key)
    }
}
