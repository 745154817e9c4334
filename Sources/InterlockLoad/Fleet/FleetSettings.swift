public import InterlockJudge

/// What a fleet of the harness's own is made of.
public struct FleetSettings: Sendable {
    /// The program `interlock`; the harness itself is one: `/proc/self/exe`.
    public var program: String
    public var sidecars: Int
    /// The sidecars' configuration in YAML. Where they listen, which Redis they use and where their data lies is said on
    /// the command line.
    public var configuration: String
    /// What may be broken. It decides how the fleet is built: only a fleet whose connections may be broken has proxies in the
    /// way, only one whose Redis may be restarted has an append-only file, only one whose clock may jump runs under libfaketime.
    public var faults: Set<FaultKind>
    /// Further configuration of Redis as its command line takes it.
    public var redisArguments: [String]

    public init(
        program: String, sidecars: Int, configuration: String = "", faults: Set<FaultKind> = [], redisArguments: [String] = []
    ) {
        self.program = program
        self.sidecars = sidecars
        self.configuration = configuration
        self.faults = faults
        self.redisArguments = redisArguments
    }

    var needsProxies: Bool { !faults.isDisjoint(with: [.partition, .latency, .reset]) }

    /// Every write is on disk before it is answered. A fleet that is only wiped has none: its Redis forgets by being killed.
    var keepsData: Bool { faults.contains(.redisRestart) }

    var movesClock: Bool { faults.contains(.clock) }
}
