internal import Interlock

extension Lease {
    /// As JSON.
    var members: KeyValuePairs<String, JSONValue> {
        [
            "fence": .integer(fence), "name": .text(name), "token": .text(token), "valid_ms": .integer(validMilliseconds),
        ]
    }

    /// What was granted: the lease, or the leases that were taken together.
    static func members(_ leases: [Lease], areTogether: Bool) -> KeyValuePairs<String, JSONValue> {
        guard let lease = leases.first, !areTogether else {
            let each = leases.map { JSONValue.object(Dictionary(uniqueKeysWithValues: $0.members.map { ($0.key, $0.value) })) }
            return ["leases": .list(each)]
        }
        return lease.members
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
    var queue: [JSONValue]

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
        queue = information.queue.map { sidecar in
            .object([
                "sidecar": .text(sidecar.id), "waiters": sidecar.waiters.map { .integer(Int64($0)) } ?? .null,
            ])
        }
    }

    private enum CodingKeys: String, CodingKey {
        case name, label, fence, mode, permits, holders, leases, waiters, queue
        case ttlMilliseconds = "ttl_ms"
    }
}

/// The last grants through this sidecar.
struct GrantListReply: Encodable {
    var grants: [JSONValue]

    static func member(_ grant: GrantRecord) -> JSONValue {
        .object([
            "name": .text(grant.name),
            "label": .text(grant.label),
            "mode": .text(grant.mode.word),
            "permits": grant.mode.permits.map { .integer(Int64($0)) } ?? .null,
            "fence": .integer(grant.fence),
            "granted_ms": .integer(grant.grantedMilliseconds),
            "waited_ms": .integer(grant.waitedMilliseconds),
            "ended_ms": grant.endedMilliseconds.map { .integer($0) } ?? .null,
            "end": grant.end.map { .text($0.rawValue) } ?? .null,
        ])
    }
}

/// One step through the locks.
struct LockPageReply: Encodable {
    var cursor: String
    var names: [String]
    /// `nil`: they were not asked for.
    var locks: [LockReply]?
}
