public import FoundationEssentials

/// A live sidecar or embedded coordinator of the fleet, as it describes itself. Fields that its version does not
/// publish are `nil`.
public struct FleetMember: Hashable, Sendable {
    /// The ID in the fleet: 12 hexadecimal digits, new at each start.
    public var id: String
    /// The host on which it runs, as the operating system names it.
    public var host: String?
    /// The ID of the process on its host.
    public var processID: Int64?
    /// The version of Interlock.
    public var version: String?
    /// The start time as Unix time in milliseconds, to the second.
    package var startedMilliseconds: Int64?
    /// The digest of its services. Members with the same digest have the same services.
    public var configurationDigest: String?
    /// The names of the services that this member defines differently from the member that was asked.
    public var differingServices: [String] = []

    /// The start time, by the member's own clock, to the second.
    public var startedAt: Date? { startedMilliseconds.map { Date(epochMilliseconds: $0) } }

    package init(
        id: String, host: String? = nil, processID: Int64? = nil, version: String? = nil, startedMilliseconds: Int64? = nil,
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
