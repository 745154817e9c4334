import InterlockCore

extension LockSettings {
    private static let leases: ClosedRange<Duration> = .milliseconds(10) ... .seconds(366 * 86_400)
    private static let waits: ClosedRange<Duration> = .zero ... .seconds(86_400)

    /// `locks.key_prefix`, `locks.max_ttl`, `locks.max_wait`. `locks.max_hold` can only be null.
    mutating func read(_ value: ConfigurationValue) {
        value.section { section in
            section.readOptional("key_prefix", into: &keyPrefix) {
                $0.parsed { text throws(ConfigurationExpectation) in
                    try RedisSettings.checkedPrefix(text, isEmptyAllowed: true)
                }
            }
            section.read("max_ttl", into: &maximumTTL) { $0.duration(in: Self.leases) }
            section.read("max_wait", into: &maximumWait) { $0.duration(in: Self.waits) }
            section.read("max_hold") { value in
                if !value.isNull { value.refuse("expected null; a longest hold is not supported by this version") }
            }
        }
    }
}
