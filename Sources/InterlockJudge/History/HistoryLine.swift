internal import InterlockCore

/// A line of a history file after the first: an event, or the end. The field "what" determines the other fields.
///
/// | what | fields |
/// | --- | --- |
/// | `acquire` | client, sidecar, lock, mode (`exclusive`, `shared`, `permits-5`), ttl, wait, ok? (taken with others) |
/// | `renew` | client, sidecar, lock, lease, ttl |
/// | `release` | client, sidecar, lock, lease |
/// | `take` | client, sidecar, service, cost, subject?, wait |
/// | `permit` | client, sidecar, service, subject?, wait |
/// | `report` | client, sidecar, service, permit, ok |
/// | `proxy` | client, sidecar, service |
/// | `granted` | client, lease, fence, valid |
/// | `renewed` | client, valid |
/// | `released` | client |
/// | `taken` | client, limit, remaining, reset |
/// | `permitted` | client, permit, state |
/// | `reported` | client, state |
/// | `passed` | client, status |
/// | `refused` | client, reason, retry? |
/// | `failed` | client, reason |
/// | `unknown` | client, reason |
/// | `wrote` | client, lock, lease, fence, ok |
/// | `linked` | client, lock, lease, ttl, reason (`began`, `left`, `lost`) |
/// | `forced` | service, state?, until? |
/// | `breaker` | sidecar, service, state, generation, until? |
/// | `fault` | fault, reason (its kind), sidecar? |
/// | `mended` | fault |
/// | `end` | events (their number) |
///
/// `at` and `until` are in nanoseconds, all other times in milliseconds.
struct HistoryLine: Decodable {
    var atNanoseconds: Int64
    var kind: String
    var client: Int?
    var sidecar: Int?
    var lock: Int?
    var mode: String?
    var lease: Int64?
    var fence: Int64?
    var ttlMilliseconds: Int64?
    var waitMilliseconds: Int64?
    var validForMilliseconds: Int64?
    var service: Int?
    var cost: Int64?
    var subject: Int?
    var limit: Int64?
    var remaining: Int64?
    var resetAfterMilliseconds: Int64?
    var permit: Int64?
    var ok: Bool?
    var status: Int?
    var state: String?
    var generation: Int64?
    var untilNanoseconds: Int64?
    var reason: String?
    var retryAfterMilliseconds: Int64?
    var fault: Int?
    var events: Int?

    enum CodingKeys: String, CodingKey {
        case atNanoseconds = "at"
        case kind = "what"
        case client, sidecar, lock, mode, lease, fence
        case ttlMilliseconds = "ttl"
        case waitMilliseconds = "wait"
        case validForMilliseconds = "valid"
        case service, cost, subject, limit, remaining
        case resetAfterMilliseconds = "reset"
        case permit, ok, status, state, generation
        case untilNanoseconds = "until"
        case reason
        case retryAfterMilliseconds = "retry"
        case fault, events
    }

    init(at instant: Instant, kind: String) {
        atNanoseconds = instant.nanoseconds
        self.kind = kind
    }
}

extension HistoryLine {
    /// Appends the line as JSON. A run records thousands of lines a second on its event loop, and `JSONEncoder` is ten
    /// times slower.
    func write(into buffer: inout [UInt8]) {
        buffer.append(UInt8(ascii: "{"))
        write(.atNanoseconds, atNanoseconds, into: &buffer)
        write(.kind, kind, into: &buffer)
        write(.client, client, into: &buffer)
        write(.sidecar, sidecar, into: &buffer)
        write(.lock, lock, into: &buffer)
        write(.mode, mode, into: &buffer)
        write(.lease, lease, into: &buffer)
        write(.fence, fence, into: &buffer)
        write(.ttlMilliseconds, ttlMilliseconds, into: &buffer)
        write(.validForMilliseconds, validForMilliseconds, into: &buffer)
        write(.service, service, into: &buffer)
        write(.cost, cost, into: &buffer)
        write(.subject, subject, into: &buffer)
        write(.waitMilliseconds, waitMilliseconds, into: &buffer)
        write(.limit, limit, into: &buffer)
        write(.remaining, remaining, into: &buffer)
        write(.resetAfterMilliseconds, resetAfterMilliseconds, into: &buffer)
        write(.permit, permit, into: &buffer)
        write(.ok, ok, into: &buffer)
        write(.status, status, into: &buffer)
        write(.state, state, into: &buffer)
        write(.generation, generation, into: &buffer)
        write(.untilNanoseconds, untilNanoseconds, into: &buffer)
        write(.fault, fault, into: &buffer)
        write(.reason, reason, into: &buffer)
        write(.retryAfterMilliseconds, retryAfterMilliseconds, into: &buffer)
        write(.events, events, into: &buffer)
        // The comma after the last field becomes the closing brace.
        buffer[buffer.count - 1] = UInt8(ascii: "}")
    }

    private func write(_ key: CodingKeys, _ value: (some BinaryInteger)?, into buffer: inout [UInt8]) {
        guard let value else { return }
        write(key, into: &buffer)
        var digits = value.magnitude
        if value < 0 { buffer.append(UInt8(ascii: "-")) }
        let start = buffer.count
        repeat {
            let (quotient, digit) = digits.quotientAndRemainder(dividingBy: 10)
            buffer.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: digit))
            digits = quotient
        } while digits > 0
        buffer[start...].reverse()
        buffer.append(UInt8(ascii: ","))
    }

    private func write(_ key: CodingKeys, _ value: Bool?, into buffer: inout [UInt8]) {
        guard let value else { return }
        write(key, into: &buffer)
        buffer.append(contentsOf: (value ? "true," : "false,").utf8)
    }

    private func write(_ key: CodingKeys, _ value: String?, into buffer: inout [UInt8]) {
        guard let value else { return }
        write(key, into: &buffer)
        JSONText.append(quoted: value, to: &buffer)
        buffer.append(UInt8(ascii: ","))
    }

    private func write(_ key: CodingKeys, into buffer: inout [UInt8]) {
        buffer.append(UInt8(ascii: "\""))
        buffer.append(contentsOf: key.rawValue.utf8)
        buffer.append(contentsOf: "\":".utf8)
    }
}
