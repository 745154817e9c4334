package import Interlock
package import InterlockCore

/// What a request asks of locks: how they are held, which others are taken together with the one that its path names, and
/// whether the leases are tied to a stream of events.
package struct LockWish: Sendable {
    /// The lock of the path; of several, what is asked for each.
    package var request: LockRequest
    /// Taken together with it, all or none; `nil`: it is taken alone.
    package var others: [ResourceName]?
    var isLinked: Bool

    package static let fields = ["ttl_ms", "wait_ms", "owner", "label", "mode", "permits", "also", "linked"]

    private enum Mode: String, CaseIterable {
        case exclusive, shared
    }

    package init(_ name: ResourceName, _ fields: JSONFields) throws {
        request = LockRequest(name: name, ttl: try fields.requiredInteger("ttl_ms", in: HTTPBounds.ttl))
        request.wait = try fields.integer("wait_ms", in: HTTPBounds.milliseconds) ?? 0
        request.owner = try fields.name("owner")
        request.label = try fields.name("label")
        request.mode = try Self.mode(fields)
        others = try fields.names("also")
        isLinked = try fields.flag("linked") ?? false
    }

    /// Of another who has one of the locks.
    var refusal: HTTPProblem {
        others.map { HTTPProblem.held(oneOf: $0.count + 1) } ?? HTTPProblem.held(request.name)
    }

    private static func mode(_ fields: JSONFields) throws -> LockMode {
        let mode: Mode = try fields.word("mode") ?? .exclusive
        switch (mode, try fields.integer("permits", in: HTTPBounds.permits)) {
        case (.shared, .some):
            throw HTTPProblem(.invalid, "permits does not go together with mode shared: a lock is held in one way")
        case (.shared, nil): return .shared
        case (.exclusive, let count?): return .permits(Int(count))
        case (.exclusive, nil): return .exclusive
        }
    }
}
