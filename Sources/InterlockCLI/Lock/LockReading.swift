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
    var holders: Int64
    var leases: [Holder]
    var waiters: Int64

    private enum CodingKeys: String, CodingKey {
        case name, label, fence, mode, permits, holders, leases, waiters
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

    init(_ lock: SidecarLock) {
        name = lock.name
        label = lock.label
        fence = lock.fence
        ttlMilliseconds = lock.isWithoutEnd ? -1 : lock.timeLeft?.wholeMilliseconds ?? 0
        switch lock.mode {
        case .exclusive: mode = "exclusive"
        case .shared: mode = "shared"
        case .permits(let places): (mode, permits) = ("permits", places)
        case nil: mode = nil
        }
        holders = lock.holders
        leases = lock.leases.map {
            Holder(label: $0.label, fence: $0.fence, ttlMilliseconds: $0.timeLeft?.wholeMilliseconds ?? -1)
        }
        waiters = lock.waiters
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
        guard mode != "exclusive", !leases.isEmpty else { return overview }
        var table = Table(["LABEL", "FENCE", "TIME LEFT"])
        for lease in leases {
            table.add([lease.label, lease.fence.map { "\($0)" } ?? "", Self.timeLeft(lease.ttlMilliseconds)])
        }
        return overview + "\n\n" + table.text
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

    init(_ lease: SidecarLease) {
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
