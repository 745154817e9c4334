public import FoundationEssentials
internal import Hiredis

/// A live sidecar of the fleet, as it publishes itself. Older ones publish less.
public struct SidecarMember: Hashable, Sendable {
    /// Its ID in the fleet: 12 hexadecimal digits, new at each start.
    public var id: String
    /// The name of its host; `nil`: an older sidecar, which does not say. So below.
    public var host: String?
    /// Of its process on its host.
    public var processID: Int64?
    /// Of Interlock.
    public var version: String?
    package var startedMilliseconds: Int64?
    /// The digest of its services: sidecars with the same one run with the same services.
    public var configuration: String?
    /// The services that it defines differently from the sidecar that was asked, by name.
    public var differing: [String]

    /// The time of its start, by its own clock, to the second.
    public var started: Date? { startedMilliseconds.map { Date(epochMilliseconds: $0) } }

    /// `nil` when the reply is no sidecar's map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let id = fields.text("id") else { return nil }
        self.id = id
        host = fields.text("host")
        processID = fields.integer("pid")
        version = fields.text("version")
        startedMilliseconds = fields.integer("started_ms")
        configuration = fields.text("configuration")
        differing = fields.texts("differs")
    }
}

/// The commands `FLEET.*`.
enum FleetCalls {
    /// `FLEET.LIST`.
    struct List: SidecarCall {
        func encode(into encoder: inout CommandEncoder) {
            encoder.append("FLEET.LIST")
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [SidecarMember] {
            guard let elements = reply.array else { throw reply.unexpected(for: "FLEET.LIST") }
            let members = elements.compactMap { SidecarMember($0) }
            guard members.count == elements.count else { throw reply.unexpected(for: "FLEET.LIST") }
            return members
        }
    }
}
