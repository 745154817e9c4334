package import Interlock
package import InterlockCore

extension Lease {
    /// The lease as JSON.
    var fields: KeyValuePairs<String, JSONValue> {
        guard let permits else {
            return [
                "fence": .integer(fence), "name": .string(name), "token": .string(token), "valid_ms": .integer(validMilliseconds),
            ]
        }
        return [
            "fence": .integer(fence), "name": .string(name), "permits": .integer(Int64(permits)), "token": .string(token),
            "valid_ms": .integer(validMilliseconds),
        ]
    }

    /// Returns the granted lease as JSON, or a list of the leases that were acquired together.
    static func fields(_ leases: [Lease], isJoint: Bool) -> KeyValuePairs<String, JSONValue> {
        guard let lease = leases.first, !isJoint else {
            let list = leases.map { lease in
                JSONValue.object(Dictionary(uniqueKeysWithValues: lease.fields.map { ($0.key, $0.value) }))
            }
            return ["leases": .array(list)]
        }
        return lease.fields
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

/// The public description of a lock as JSON, without tokens.
package enum LockReply {
    package static func fields(_ information: LockInformation) -> [String: JSONValue] {
        let leases = information.leases.map { lease in
            JSONValue.object([
                "label": .string(lease.label), "fence": lease.fence.map(JSONValue.integer) ?? .null,
                "ttl_ms": .integer(lease.ttlMilliseconds),
            ])
        }
        let queue = information.queue.map { sidecar in
            JSONValue.object([
                "sidecar": .string(sidecar.id), "waiters": sidecar.waiters.map { .integer(Int64($0)) } ?? .null,
            ])
        }
        return [
            "name": .string(information.name),
            "label": information.label.map(JSONValue.string) ?? .null,
            "fence": information.fence.map(JSONValue.integer) ?? .null,
            "ttl_ms": .integer(information.ttlMilliseconds),
            "mode": information.mode.map { .string($0.rawName) } ?? .null,
            "permits": information.mode?.permits.map { .integer(Int64($0)) } ?? .null,
            "holders": .integer(Int64(information.holders)),
            "leases": .array(leases),
            "waiters": .integer(Int64(information.waiters)),
            "queue": .array(queue),
        ]
    }
}

/// The last grants through this sidecar as JSON.
package enum GrantListReply {
    package static func fields(_ grants: [GrantRecord]) -> [String: JSONValue] { ["grants": .array(grants.map(member))] }

    private static func member(_ grant: GrantRecord) -> JSONValue {
        .object([
            "name": .string(grant.name),
            "label": .string(grant.label),
            "mode": .string(grant.mode.rawName),
            "permits": grant.mode.permits.map { .integer(Int64($0)) } ?? .null,
            "fence": .integer(grant.fence),
            "granted_ms": .integer(grant.grantedMilliseconds),
            "waited_ms": .integer(grant.waitedMilliseconds),
            "ended_ms": grant.endedMilliseconds.map { .integer($0) } ?? .null,
            "end": grant.end.map { .string($0.rawValue) } ?? .null,
        ])
    }
}

/// One page of the list of locks as JSON.
enum LockPageReply {
    /// Returns a page.
    /// - Parameter locks: the details of the locks; `nil` if they were not requested.
    static func fields(_ page: LockPage, locks: [LockInformation]?) -> [String: JSONValue] {
        var fields: [String: JSONValue] = ["cursor": .string(page.cursor), "names": .array(page.names.map { .string($0) })]
        if let locks { fields["locks"] = .array(locks.map { .object(LockReply.fields($0)) }) }
        return fields
    }
}
