/// A parser of untrusted bytes, with promises that hold for every input.
package enum FuzzTarget: String, CaseIterable, Sendable {
    /// Commands to the RESP API, and their options.
    case resp
    /// Replies from Redis, as bytes.
    case replies
    /// Messages on the fleet's event channel.
    case events
    /// Configuration files, and the values in them that have their own grammar.
    case configuration
    /// HTTP requests: the target in the first line, then the body.
    case http
    /// The input of the outage monitor: a JSON path in the first line, then the body.
    case probes
    /// The bytes that clients send to the HTTP API, after a byte that determines the size of the pieces.
    case api
    /// Envoy's requests to the rate limit service.
    case ratelimit
    /// The bytes of servers' answers to the proxy, after a byte that determines the request and one for the size of the
    /// pieces.
    case upstream
    /// The events of a connection to a server, in any order: a byte that selects HTTP/1.1 or a stream, then one byte
    /// per event.
    case connection
    /// The events of a RESP client's connection, in any order: a byte that selects plain text or TLS, then one byte per
    /// event.
    case client
    /// The events of an HTTP client's connection, in any order: a byte that selects HTTP/1.1 or a stream, then one byte
    /// per event.
    case server

    /// Parses `input`. Equal inputs have equal results.
    /// - Throws: `FuzzFinding` if a promise is broken. Some promises can only be broken by a crash.
    package func run(_ input: [UInt8]) throws(FuzzFinding) {
        switch self {
        case .resp: try RequestProperties.check(input)
        case .replies: try ReplyProperties.check(input)
        case .events: try EventProperties.check(input)
        case .configuration: try ConfigurationProperties.check(input)
        case .http: try HTTPProperties.check(input)
        case .probes: try ProbeProperties.check(input)
        case .api: try ListenerProperties.check(input)
        case .ratelimit: try RateLimitProperties.check(input)
        case .upstream: try UpstreamProperties.check(input)
        case .connection: try ConnectionProperties.check(input)
        case .client: try ClientProperties.check(input)
        case .server: try ServerProperties.check(input)
        }
    }
}

/// A broken promise of a parser.
package struct FuzzFinding: Error, CustomStringConvertible {
    /// The promise, and how it was broken.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Throws if `promise` does not hold.
func expect(_ promise: Bool, _ finding: @autoclosure () -> String) throws(FuzzFinding) {
    guard promise else { throw FuzzFinding(finding()) }
}

/// The ways to split a stream. Sockets may split it at any byte.
enum Chunking {
    case whole
    case bytewise
    /// Pieces of pseudorandom sizes, derived from the bytes.
    case scattered

    func chunks(of stream: [UInt8]) -> [ArraySlice<UInt8>] {
        switch self {
        case .whole: [stream[...]]
        case .bytewise: stream.indices.map { stream[$0...$0] }
        case .scattered: Self.scattered(stream)
        }
    }

    private static func scattered(_ stream: [UInt8]) -> [ArraySlice<UInt8>] {
        var random = stream.fnv
        var chunks: [ArraySlice<UInt8>] = []
        var remaining = stream[...]
        while !remaining.isEmpty {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let chunk = remaining.prefix(1 + Int(random >> 59))
            chunks.append(chunk)
            remaining = remaining.dropFirst(chunk.count)
        }
        return chunks
    }
}

extension [UInt8] {
    /// The FNV-1a hash, which is the same in every process.
    var fnv: UInt64 {
        reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
