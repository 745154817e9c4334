import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

/// A lock as anybody may see it, without its token.
struct LockReading: Answer, Sendable {
    var name: String
    /// The holder's label, or `foreign`; `nil`: not held.
    var label: String?
    /// `nil`: none was granted within a day.
    var fence: Int64?
    /// -1: no expiry; 0: not held.
    var ttlMilliseconds: Int64
    /// `exclusive`, `shared` or `permits`; `nil`: not held.
    var mode: String?
    /// A semaphore's places.
    var permits: Int?
    /// How many hold it.
    var holders: Int
    var leases: [Holder]
    var waiters: Int
    var queue: [WaitingSidecar]

    private enum CodingKeys: String, CodingKey {
        case name, label, fence, mode, permits, holders, leases, waiters, queue
        case ttlMilliseconds = "ttl_ms"
    }

    /// One of those who hold it.
    struct Holder: Encodable, Sendable {
        var label: String
        var fence: Int64?
        /// -1: no expiry.
        var ttlMilliseconds: Int64

        private enum CodingKeys: String, CodingKey {
            case label, fence
            case ttlMilliseconds = "ttl_ms"
        }
    }

    /// One of those in which callers wait.
    struct WaitingSidecar: Encodable, Sendable {
        var sidecar: String
        /// `nil`: it has not told.
        var waiters: Int?

        private enum CodingKeys: String, CodingKey { case sidecar, waiters }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(sidecar, forKey: .sidecar)
            try container.encode(waiters, forKey: .waiters)
        }
    }

    init(_ lock: LockInformation) {
        name = lock.name
        label = lock.label
        fence = lock.fence
        ttlMilliseconds = lock.ttlMilliseconds
        mode = lock.mode?.word
        permits = lock.mode?.permits
        holders = lock.holders
        leases = lock.leases.map {
            Holder(label: $0.label, fence: $0.fence, ttlMilliseconds: $0.ttlMilliseconds)
        }
        waiters = lock.waiters
        queue = lock.queue.map { WaitingSidecar(sidecar: $0.id, waiters: $0.waiters) }
    }

    /// What is left of the lease, as text.
    var timeLeft: String { label == nil ? "" : Self.timeLeft(ttlMilliseconds) }

    private static func timeLeft(_ milliseconds: Int64) -> String {
        milliseconds < 0 ? "no expiry" : ReadableText.span(milliseconds: milliseconds)
    }

    /// How many hold it and how: `1`, `2 readers`, `2 of 3`.
    var holdersText: String {
        switch (mode, permits) {
        case (_, let places?): "\(holders) of \(places)"
        case ("shared", _): "\(holders) \(holders == 1 ? "reader" : "readers")"
        default: "\(holders)"
        }
    }

    var table: String {
        let overview = Table([
            "lock": name,
            "label": label ?? "not held",
            "time left": timeLeft,
            "holders": holdersText,
            "fence": fence.map { "\($0)" } ?? "",
            "waiting": "\(waiters)",
        ]).text
        return ([overview] + [leaseTable, queueTable].compactMap(\.self)).joined(separator: "\n\n")
    }

    private var leaseTable: String? {
        guard mode != "exclusive", !leases.isEmpty else { return nil }
        var table = Table(["LABEL", "FENCE", "TIME LEFT"])
        for lease in leases {
            table.add([lease.label, lease.fence.map { "\($0)" } ?? "", Self.timeLeft(lease.ttlMilliseconds)])
        }
        return table.text
    }

    private var queueTable: String? {
        guard !queue.isEmpty else { return nil }
        var table = Table(["TURN", "SIDECAR", "WAITING"])
        for (turn, entry) in queue.enumerated() {
            table.add(["\(turn + 1)", entry.sidecar, entry.waiters.map { "\($0)" } ?? "unknown"])
        }
        return table.text
    }
}

/// The locks that are held.
struct LockListing: Answer {
    var locks: [LockReading]
    /// Whether these are all that match.
    var isComplete: Bool

    private enum CodingKeys: String, CodingKey {
        case locks
        case isComplete = "complete"
    }

    /// How many locks are listed or counted by default.
    static let standardLimit = 1000

    var table: String {
        var table = Table(["LOCK", "LABEL", "HOLDERS", "TIME LEFT", "FENCE", "WAITING"])
        for lock in locks {
            table.add([
                lock.name, lock.label ?? "", lock.holdersText, lock.timeLeft, lock.fence.map { "\($0)" } ?? "", "\(lock.waiters)",
            ])
        }
        return table.text
    }
}

/// The last grants through a sidecar.
struct GrantListing: Answer {
    var grants: [GrantReading]

    var table: String {
        var table = Table(["LOCK", "LABEL", "MODE", "FENCE", "GRANTED", "WAITED", "ENDED"])
        for grant in grants {
            table.add([
                grant.name, grant.label, grant.permits.map { "\(grant.mode) \($0)" } ?? grant.mode, "\(grant.fence)",
                ReadableText.moment(epochMilliseconds: grant.grantedMilliseconds),
                ReadableText.span(milliseconds: grant.waitedMilliseconds), grant.ending,
            ])
        }
        return table.text
    }
}

/// One of the last grants through a sidecar.
struct GrantReading: Encodable, Sendable {
    var name: String
    var label: String
    /// `exclusive`, `shared` or `permits`.
    var mode: String
    /// A semaphore's places.
    var permits: Int?
    var fence: Int64
    var grantedMilliseconds: Int64
    var waitedMilliseconds: Int64
    /// `nil`: the lease is in force.
    var endedMilliseconds: Int64?
    /// `released`, `lost` or `lapsed`; `nil`: the lease is in force.
    var end: String?

    private enum CodingKeys: String, CodingKey {
        case name, label, mode, permits, fence, end
        case grantedMilliseconds = "granted_ms"
        case waitedMilliseconds = "waited_ms"
        case endedMilliseconds = "ended_ms"
    }

    init(_ grant: SidecarGrant) {
        name = grant.name
        label = grant.label
        mode = grant.mode.word
        permits = grant.mode.permits
        fence = grant.fence
        grantedMilliseconds = grant.grantedMilliseconds
        waitedMilliseconds = grant.waited.wholeMilliseconds
        endedMilliseconds = grant.endedMilliseconds
        end = grant.end
    }

    /// How it ended, and how long it was held: `released after 2.0s`.
    var ending: String {
        guard let end, let endedMilliseconds else { return "held" }
        return "\(end) after \(ReadableText.span(milliseconds: max(0, endedMilliseconds - grantedMilliseconds)))"
    }
}

/// A lease that was granted.
struct LockGrant: Answer {
    /// What scripts want to have alone.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        case token, fence
    }

    /// Of a refusal `false`, whatever else is there.
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

/// Why there is no lease, for programs.
struct LockRefusal: Encodable {
    private let isAcquired = false
    var name: String
    /// What to switch on.
    var code: String
    /// For people.
    var detail: String

    private enum CodingKeys: String, CodingKey {
        case name, code, detail
        case isAcquired = "acquired"
    }

    init(name: String, _ failure: Failure) {
        self.name = name
        code =
            switch failure.status {
            case .no: "held"
            case .usage: "usage"
            case .invalid: "invalid"
            case .denied: "denied"
            // The others are of `run`.
            case .unavailable, .notSidecar, .otherVersion, .leaseLost, .notAcquired, .notExecutable, .notFound: "unavailable"
            }
        detail = failure.description
    }
}

/// A lease that was extended.
struct LockRenewal: Answer {
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
