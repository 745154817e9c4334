public import FoundationEssentials

/// A live sidecar or embedded coordinator of the fleet, as that member describes itself. A field that the member's
/// version does not publish is `nil`.
public struct FleetMember: Hashable, Sendable {
    /// The ID in the fleet: 12 hexadecimal digits. Each start of the process gets a new ID.
    public var id: String
    /// The name of the member's host, as the operating system reports it.
    public var host: String?
    /// The ID of the member's process on that host.
    public var processID: Int64?
    /// The member's version of Interlock.
    public var version: String?
    /// The start time as Unix time in milliseconds, to the second.
    package var startedMilliseconds: Int64?
    /// The digest of the member's services. Members with the same digest have the same services.
    public var configurationDigest: String?
    /// The names of the services that this member defines differently from the member that reports the fleet.
    public var differingServices: [String] = []

    /// The start time, by the member's own clock, to the second.
    public var startedAt: Date? { startedMilliseconds.map { Date(epochMilliseconds: $0) } }

    package init(
        id: String, host: String? = nil, processID: Int64? = nil, version: String? = nil,
        startedMilliseconds: Int64? = nil,
        configurationDigest: String? = nil, differingServices: [String] = []
    ) {
        self.id = id
        self.host = host
        self.processID = processID
        self.version = version
        self.startedMilliseconds = startedMilliseconds
        self.configurationDigest = configurationDigest
        self.differingServices = differingServices
    }
}
