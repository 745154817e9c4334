/// The trace of a call and the span of its caller: W3C Trace Context, <https://www.w3.org/TR/trace-context/>.
package struct TraceContext: Hashable, Sendable {
    /// A trace's ID: 128 bits, not all of them 0.
    package struct TraceID: Hashable, Sendable {
        package var high: UInt64
        package var low: UInt64

        package init(high: UInt64, low: UInt64) {
            self.high = high
            self.low = low
        }

        /// The ID as logs and exemplars show it: 32 hexadecimal digits.
        package var text: String { TraceContext.text(high) + TraceContext.text(low) }
    }

    package var traceID: TraceID
    /// The ID of the calling span; never 0.
    package var spanID: UInt64
    /// Whether the caller records the trace.
    package var isSampled: Bool
    /// The `tracestate` as received; empty if the call has no `tracestate`.
    package var state: String

    /// The maximum length of a stored `tracestate` in bytes. The standard asks every vendor to propagate that much.
    private static let maximumStateBytes = 512

    package init(traceID: TraceID, spanID: UInt64, isSampled: Bool, state: String = "") {
        self.traceID = traceID
        self.spanID = spanID
        self.isSampled = isSampled
        self.state = state
    }

    /// Parses a `traceparent`; returns `nil` if it is invalid, so that the call begins a new trace.
    /// - Parameter state: the `tracestate`, which is not interpreted, and is dropped if it is too long.
    package init?(traceparent: some StringProtocol, state: String? = nil) {
        let bytes = Array(traceparent.utf8)
        // The fields are version, trace, span and flags. An unknown version may have more fields after these.
        guard bytes.count >= 55, let version = Self.number(bytes[0..<2]), version != 0xFF,
            version == 0 ? bytes.count == 55 : bytes.count == 55 || bytes[55] == UInt8(ascii: "-"),
            [2, 35, 52].allSatisfy({ bytes[$0] == UInt8(ascii: "-") }),
            let high = Self.number(bytes[3..<19]), let low = Self.number(bytes[19..<35]),
            let span = Self.number(bytes[36..<52]), let flags = Self.number(bytes[53..<55]),
            high != 0 || low != 0, span != 0
        else { return nil }
        let state = state ?? ""
        self.init(
            traceID: TraceID(high: high, low: low), spanID: span, isSampled: flags & 1 == 1,
            state: state.utf8.count <= Self.maximumStateBytes ? state : "")
    }

    /// The value of the `traceparent` field.
    package var traceparent: String {
        "00-\(traceID.text)-\(Self.text(spanID))-\(isSampled ? "01" : "00")"
    }

    /// Parses hexadecimal digits, which the standard requires in lower case.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(digit - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }

    private static func text(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}
