internal import Interlock

/// A lease as JSON.
struct LeaseReply: Encodable {
    var name: String
    var token: String
    var fence: Int64
    var validMilliseconds: Int64

    init(_ lease: Lease) {
        name = lease.name
        token = lease.token
        fence = lease.fence
        validMilliseconds = lease.validMilliseconds
    }

    private enum CodingKeys: String, CodingKey {
        case name, token, fence
        case validMilliseconds = "valid_ms"
    }
}

/// What was granted: the lease, or the leases that were taken together.
struct GrantReply: Encodable {
    private let leases: [LeaseReply]
    private let areTogether: Bool

    init(_ leases: [Lease], areTogether: Bool) {
        self.leases = leases.map(LeaseReply.init)
        self.areTogether = areTogether
    }

    func encode(to encoder: any Encoder) throws {
        if let lease = leases.first, !areTogether {
            try lease.encode(to: encoder)
        } else {
            try ["leases": leases].encode(to: encoder)
        }
    }
}

/// A lease that is lost.
struct LossReply: Encodable {
    var name: String
    var token: String
    var reason: String

    init(_ lease: Lease, _ loss: LeaseLoss) {
        name = lease.name
        token = lease.token
        reason = loss.rawValue
    }
}

/// What a renewal answers.
struct RenewalReply: Encodable {
    var validMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case validMilliseconds = "valid_ms"
    }
}

/// What anybody may know of a lock; never the token.
struct LockReply: Encodable {
    var name: String
    var label: JSONValue
    var fence: JSONValue
    var ttlMilliseconds: Int64
    var mode: JSONValue
    var permits: JSONValue
    var holders: Int
    var leases: [JSONValue]
    var waiters: Int

    init(_ information: LockInformation) {
        name = information.name
        label = information.label.map(JSONValue.text) ?? .null
        fence = information.fence.map(JSONValue.integer) ?? .null
        ttlMilliseconds = information.ttlMilliseconds
        mode = information.mode.map { .text($0.word) } ?? .null
        permits = information.mode?.permits.map { .integer(Int64($0)) } ?? .null
        holders = information.holders
        leases = information.leases.map { lease in
            .object([
                "label": .text(lease.label), "fence": lease.fence.map(JSONValue.integer) ?? .null,
                "ttl_ms": .integer(lease.ttlMilliseconds),
            ])
        }
        waiters = information.waiters
    }

    private enum CodingKeys: String, CodingKey {
        case name, label, fence, mode, permits, holders, leases, waiters
        case ttlMilliseconds = "ttl_ms"
    }
}

/// One step through the locks.
struct LockPageReply: Encodable {
    var cursor: String
    var names: [String]
}
