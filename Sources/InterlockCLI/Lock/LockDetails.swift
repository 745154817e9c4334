import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore
import SidecarListeners

/// The output of a lock. It excludes the token, so anyone may see it.
struct LockDetails: CommandOutput, Sendable {
    let lock: LockInformation

    init(_ lock: LockInformation) {
        self.lock = lock
    }

    func encode(to encoder: any Encoder) throws {
        var fields = LockReply.fields(lock)
        let queue = fields.removeValue(forKey: "queue")
        // In the queue, a null is the unknown number of a sidecar's waiters. All other nulls are omitted.
        try JSONValue.object(fields).withoutNulls.adding("queue", queue).encode(to: encoder)
    }

    /// The remaining time of the lease, as text; empty if the lock is not held.
    var timeLeft: String { lock.label == nil ? "" : Self.timeLeft(lock.ttlMilliseconds) }

    private static func timeLeft(_ milliseconds: Int64) -> String {
        milliseconds < 0 ? "no expiry" : ReadableText.span(milliseconds: milliseconds)
    }

    /// The number and kind of holders: `1`, `2 readers`, `2 of 3`.
    var holdersText: String {
        switch lock.mode {
        case .permits(let slots): "\(lock.holders) of \(slots)"
        case .shared: "\(lock.holders) \(lock.holders == 1 ? "reader" : "readers")"
        case .exclusive, nil: "\(lock.holders)"
        }
    }

    var table: String {
        let overview = Table([
            "lock": lock.name,
            "label": lock.label ?? "not held",
            "time left": timeLeft,
            "holders": holdersText,
            "fence": fence,
            "waiting": "\(lock.waiters)",
        ]).text
        return ([overview] + [leaseTable, queueTable].compactMap(\.self)).joined(separator: "\n\n")
    }

    /// The fence of the last grant, as text; empty if Redis no longer stores one.
    var fence: String { lock.fence.map { "\($0)" } ?? "" }

    private var leaseTable: String? {
        guard lock.mode != .exclusive, !lock.leases.isEmpty else { return nil }
        var table = Table(["LABEL", "FENCE", "TIME LEFT"])
        for lease in lock.leases {
            table.add([lease.label, lease.fence.map { "\($0)" } ?? "", Self.timeLeft(lease.ttlMilliseconds)])
        }
        return table.text
    }

    private var queueTable: String? {
        guard !lock.queue.isEmpty else { return nil }
        var table = Table(["TURN", "SIDECAR", "WAITING"])
        for (turn, entry) in lock.queue.enumerated() {
            table.add(["\(turn + 1)", entry.id, entry.waiters.map { "\($0)" } ?? "unknown"])
        }
        return table.text
    }
}

/// The output of the last grants through a sidecar.
struct GrantListing: CommandOutput {
    var grants: [GrantDetails]

    var table: String {
        var table = Table(["LOCK", "LABEL", "MODE", "FENCE", "GRANTED", "WAITED", "ENDED"])
        for details in grants {
            let (grant, mode) = (details.grant, details.grant.mode)
            table.add([
                grant.name, grant.label, mode.permits.map { "\(mode.rawName) \($0)" } ?? mode.rawName, "\(grant.fence)",
                ReadableText.moment(epochMilliseconds: grant.grantedMilliseconds),
                ReadableText.span(milliseconds: grant.waited.wholeMilliseconds), details.ending,
            ])
        }
        return table.text
    }
}

/// The output of one grant through a sidecar.
struct GrantDetails: Encodable, Sendable {
    let grant: SidecarGrant

    init(_ grant: SidecarGrant) {
        self.grant = grant
    }

    func encode(to encoder: any Encoder) throws {
        try JSONValue.object([
            "name": .string(grant.name), "label": .string(grant.label), "mode": .string(grant.mode.rawName),
            "permits": JSONValue(grant.mode.permits), "fence": .integer(grant.fence),
            "granted_ms": .integer(grant.grantedMilliseconds), "waited_ms": .integer(grant.waited.wholeMilliseconds),
            "ended_ms": JSONValue(grant.endedMilliseconds), "end": JSONValue(grant.end),
        ]).withoutNulls.encode(to: encoder)
    }

    /// The way in which the lease ended, and the time for which it was held: `released after 2.0s`.
    var ending: String {
        guard let end = grant.end, let endedMilliseconds = grant.endedMilliseconds else { return "held" }
        return "\(end) after \(ReadableText.span(milliseconds: max(0, endedMilliseconds - grant.grantedMilliseconds)))"
    }
}

/// The output of a lease that was granted.
struct LockGrant: CommandOutput {
    /// The parts of a grant that `--print` can print alone.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case token, fence
    }

    /// The JSON member `acquired`, with which scripts distinguish a grant from a refusal.
    private let isAcquired = true
    var name: String
    var token: String
    var fence: Int64
    var validMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case name, token, fence
        case isAcquired = "acquired"
        case validMilliseconds = "valid_ms"
    }

    subscript(part: Part) -> String {
        switch part {
        case .token: token
        case .fence: "\(fence)"
        }
    }

    init(_ lease: Lease) {
        name = lease.name
        token = lease.token
        fence = lease.fence
        validMilliseconds = lease.validity.wholeMilliseconds
    }

    var table: String {
        Table([
            "token": token,
            "fence": "\(fence)",
            "valid": ReadableText.span(milliseconds: validMilliseconds),
        ]).text
    }
}

/// The reason why a lock was not acquired, as JSON for programs.
struct LockRefusal: Encodable {
    private let isAcquired = false
    var name: String
    /// The code to switch on.
    var code: String
    /// A human-readable explanation.
    var detail: String

    private enum CodingKeys: String, CodingKey {
        case name, code, detail
        case isAcquired = "acquired"
    }

    init(name: String, _ failure: CommandFailure) {
        self.name = name
        code =
            switch failure.status {
            case .no: "held"
            case .usage: "usage"
            case .invalid: "invalid"
            case .denied: "denied"
            // The remaining statuses occur only in `run`.
            case .unavailable, .notSidecar, .versionMismatch, .leaseLost, .notAcquired, .notExecutable, .notFound: "unavailable"
            }
        detail = failure.description
    }
}

/// The output of a lease that was renewed.
struct LockRenewal: CommandOutput {
    var name: String
    var validMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case name
        case validMilliseconds = "valid_ms"
    }

    var table: String {
        Table(["valid": ReadableText.span(milliseconds: validMilliseconds)]).text
    }
}
