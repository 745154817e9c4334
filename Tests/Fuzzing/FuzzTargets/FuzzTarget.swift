/// A reader of bytes that others send, and what it promises whatever they are.
public enum FuzzTarget: String, CaseIterable, Sendable {
    /// What clients send to the RESP door: the requests and their options.
    case resp
    /// What Redis answers, as it comes over the wire.
    case replies
    /// What comes over the fleet's event channel.
    case events
    /// The configuration's file, and the texts in it that have a grammar of their own.
    case configuration
    /// What clients send to the HTTP door: a target in the first line, and the body in the others.
    case http
    /// What the outage monitor judges: a JSON path in the first line, a regular expression in the second, and the body in the
    /// others.
    case probes

    /// Has the target read `input`. The same input always comes to the same.
    /// - Throws: `FuzzFinding` when a promise is broken. Some can only be broken by a crash.
    public func run(_ input: [UInt8]) throws(FuzzFinding) {
        switch self {
        case .resp: try RequestPromises.check(input)
        case .replies: try ReplyPromises.check(input)
        case .events: try EventPromises.check(input)
        case .configuration: try ConfigurationPromises.check(input)
        case .http: try HTTPPromises.check(input)
        case .probes: try ProbePromises.check(input)
        }
    }
}

/// A promise that a reader broke.
public struct FuzzFinding: Error, CustomStringConvertible {
    /// What was promised, and what came instead.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Throws when `promise` does not hold.
func expect(_ promise: Bool, _ finding: @autoclosure () -> String) throws(FuzzFinding) {
    guard promise else { throw FuzzFinding(finding()) }
}

/// How the bytes of a stream come in: sockets give them in pieces of any size.
enum Chunking {
    case whole
    case bytewise
    /// In pieces whose sizes follow from the bytes themselves.
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
        var rest = stream[...]
        while !rest.isEmpty {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let chunk = rest.prefix(1 + Int(random >> 59))
            chunks.append(chunk)
            rest = rest.dropFirst(chunk.count)
        }
        return chunks
    }
}

extension [UInt8] {
    /// FNV-1a: a number that looks like chance and is the same in every process.
    var fnv: UInt64 {
        reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}
