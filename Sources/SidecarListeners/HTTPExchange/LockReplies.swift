package import Interlock
package import InterlockCore

extension Lease {
    /// The lease as JSON.
    var members: KeyValuePairs<String, JSONValue> {
        guard let permits else {
            return [
                "fence": .integer(fence), "name": .text(name), "token": .text(token), "valid_ms": .integer(validMilliseconds),
            ]
        }
        return [
            "fence": .integer(fence), "name": .text(name), "permits": .integer(Int64(permits)), "token": .text(token),
            "valid_ms": .integer(validMilliseconds),
        ]
    }

    /// Returns the granted lease, or the leases that were acquired together.
    static func members(_ leases: [Lease], isJoint: Bool) -> KeyValuePairs<String, JSONValue> {
        guard let lease = leases.first, !isJoint else {
            let each = leases.map { JSONValue.object(Dictionary(uniqueKeysWithValues: $0.members.map { ($0.key, $0.value) })) }
            return ["leases": .list(each)]
        }
        return lease.members
    }
}

/// The report of a lost lease.
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

/// The public description of a lock, without tokens.
package enum LockReply {
    package static func members(_ information: LockInformation) -> [String: JSONValue] {
        let leases = information.leases.map { lease in
            JSONValue.object([
                "label": .text(lease.label), "fence": lease.fence.map(JSONValue.integer) ?? .null,
                "ttl_ms": .integer(lease.ttlMilliseconds),
            ])
        }
        let queue = information.queue.map { sidecar in
            JSONValue.object([
                "sidecar": .text(sidecar.id), "waiters": sidecar.waiters.map { .integer(Int64($0)) } ?? .null,
            ])
        }
        return [
            "name": .text(information.name),
            "label": information.label.map(JSONValue.text) ?? .null,
            "fence": information.fence.map(JSONValue.integer) ?? .null,
            "ttl_ms": .integer(information.ttlMilliseconds),
            "mode": information.mode.map { .text($0.word) } ?? .null,
            "permits": information.mode?.permits.map { .integer(Int64($0)) } ?? .null,
            "holders": .integer(Int64(information.holders)),
            "leases": .list(leases),
            "waiters": .integer(Int64(information.waiters)),
            "queue": .list(queue),
        ]
    }
}

/// The last grants through this sidecar.
package enum GrantListReply {
    package static func members(_ grants: [GrantRecord]) -> [String: JSONValue] { ["grants": .list(grants.map(member))] }

    private static func member(_ grant: GrantRecord) -> JSONValue {
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

/// One page of the list of locks.
enum LockPageReply {
    /// - Parameter locks: the details of the locks; `nil` if they were not requested.
    static func members(_ page: LockPage, locks: [LockInformation]?) -> [String: JSONValue] {
        var members: [String: JSONValue] = ["cursor": .text(page.cursor), "names": .list(page.names.map { .text($0) })]
        if let locks { members["locks"] = .list(locks.map { .object(LockReply.members($0)) }) }
        return members
    }
}
