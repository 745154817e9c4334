internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// The header fields `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers. Times are in whole
/// seconds, rounded up. Shadow limits are omitted, because clients would obey a limit that refuses no call.
struct RateLimitFields {
    private let current: String?
    private let policy: String

    init(_ decision: CallDecision, limits: [LimitDefinition], hasSubject: Bool) {
        // A refused caller gets the time until the limit permits a call again, which never exceeds `Retry-After`.
        let milliseconds = decision.isAllowed ? decision.resetAfterMilliseconds : max(0, decision.reportedRetryAfterMilliseconds)
        let isShadow = limits.contains { $0.isShadow && $0.name == decision.limitName }
        current = (isShadow ? nil : decision.limitName).map { name in
            var bytes: [UInt8] = []
            Self.writeCurrent(name, remaining: decision.remaining, timeMilliseconds: milliseconds, to: &bytes)
            return String(decoding: bytes, as: UTF8.self)
        }
        var bytes: [UInt8] = []
        for limit in limits where !limit.isShadow && (hasSubject || !limit.isPerSubject) {
            if !bytes.isEmpty { bytes.append(text: ", ") }
            Self.writePolicy(limit.name, limit: limit.limit, windowMilliseconds: limit.windowMilliseconds, to: &bytes)
        }
        policy = String(decoding: bytes, as: UTF8.self)
    }

    /// Writes an item of `RateLimit`.
    /// - Parameter timeMilliseconds: the time until the limit permits a call again.
    static func writeCurrent(_ name: String, remaining: Int64, timeMilliseconds: Int64, to bytes: inout [UInt8]) {
        writeQuoted(name, to: &bytes)
        bytes.append(text: ";r=")
        bytes.append(decimal: max(0, remaining))
        bytes.append(text: ";t=")
        bytes.append(decimal: seconds(timeMilliseconds))
    }

    /// Writes an item of `RateLimit-Policy`.
    /// - Parameter windowMilliseconds: the length of the window.
    static func writePolicy(
        _ name: String, limit: Int64, windowMilliseconds: Int64, to bytes: inout [UInt8]
    ) {
        writeQuoted(name, to: &bytes)
        bytes.append(text: ";q=")
        bytes.append(decimal: limit)
        bytes.append(text: ";w=")
        bytes.append(decimal: max(1, seconds(windowMilliseconds)))
    }

    func add(to headers: inout HTTPHeaders) {
        if let current { headers.add(name: "RateLimit", value: current) }
        if !policy.isEmpty { headers.add(name: "RateLimit-Policy", value: policy) }
    }

    /// Returns whole seconds, rounded up; 0 for a negative time.
    static func seconds(_ milliseconds: Int64) -> Int64 {
        milliseconds <= 0 ? 0 : (milliseconds - 1) / 1000 + 1
    }

    /// Writes a string of a structured field (RFC 9651). Bytes that are not printable ASCII are percent-encoded.
    private static func writeQuoted(_ name: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        let isPlain = name.utf8.allSatisfy { (0x20..<0x7F).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        if isPlain { bytes.append(text: name) } else { for byte in name.utf8 { writeEscaped(byte, to: &bytes) } }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func writeEscaped(_ byte: UInt8, to bytes: inout [UInt8]) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case 0x20..<0x7F: bytes.append(byte)
        default: bytes.append(text: (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true))
        }
    }
}
