/// Which trace a call belongs to, and which of its spans called: W3C Trace Context, <https://www.w3.org/TR/trace-context/>.
package struct TraceContext: Hashable, Sendable {
    /// 128 bits, not all of them 0.
    package struct TraceID: Hashable, Sendable {
        package var high: UInt64
        package var low: UInt64

        package init(high: UInt64, low: UInt64) {
            self.high = high
            self.low = low
        }

        /// As logs and exemplars have it: 32 hexadecimal digits.
        package var text: String { TraceContext.text(high) + TraceContext.text(low) }
    }

    package var traceID: TraceID
    /// Not 0.
    package var spanID: UInt64
    /// Whoever called records the trace.
    package var isSampled: Bool
    /// `tracestate` as it came; empty: none.
    package var state: String

    /// The longest `tracestate` that is kept, in bytes: what every vendor must pass on.
    private static let longestState = 512

    package init(traceID: TraceID, spanID: UInt64, isSampled: Bool, state: String = "") {
        self.traceID = traceID
        self.spanID = spanID
        self.isSampled = isSampled
        self.state = state
    }

    /// Reads `traceparent`; `nil`: it is not valid, and the call begins a trace of its own.
    /// - Parameter state: `tracestate`, which is passed on and not looked into; one that is too long is left out.
    package init?(traceparent: some StringProtocol, state: String? = nil) {
        let bytes = Array(traceparent.utf8)
        // Version, trace, span and flags; a version that is not known yet may have more behind that.
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
            state: state.utf8.count <= Self.longestState ? state : "")
    }

    package var traceparent: String {
        "00-\(traceID.text)-\(Self.text(spanID))-\(isSampled ? "01" : "00")"
    }

    /// Hexadecimal digits, in lower case as the standard has them.
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
