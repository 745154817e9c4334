import InterlockCore

extension LockSettings {
    private static let leases: ClosedRange<Duration> = .milliseconds(10) ... .seconds(366 * 86_400)
    private static let waits: ClosedRange<Duration> = .zero ... .seconds(86_400)
    private static let replicas = 0...100
    private static let fences: ClosedRange<Duration> = .seconds(3600) ... .seconds(366 * 86_400)

    static let waitReplicasPath = "locks.wait_replicas"

    /// `locks.key_prefix`, `locks.max_ttl`, `locks.max_wait`, `locks.max_hold`, `locks.wait_replicas`,
    /// `locks.fence_ttl`.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.readOptional("key_prefix", into: &keyPrefix) {
                $0.parsed { text throws(ConfigurationExpectation) in
                    try RedisSettings.checkedPrefix(text, isEmptyAllowed: true)
                }
            }
            section.read("max_ttl", into: &maximumTTL) { $0.duration(in: Self.leases) }
            section.read("max_wait", into: &maximumWait) { $0.duration(in: Self.waits) }
            section.readOptional("max_hold", into: &maximumHold) { $0.duration(in: Self.leases) }
            section.read("fence_ttl", into: &fenceLifetime) { $0.duration(in: Self.fences) }
            section.read("wait_replicas", into: &waitReplicas) { value in
                value.findings.places[Self.waitReplicasPath] = value.place
                return value.wholeNumber(in: Self.replicas)
            }
        }
    }
}
