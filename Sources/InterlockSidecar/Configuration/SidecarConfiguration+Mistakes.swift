extension SidecarConfiguration {
    /// What starts with this is ours.
    private static let variablePrefix = "INTERLOCK_"
    /// Those that other parts of this program read or set.
    private static let otherVariables: Set<String> = [
        "INTERLOCK_ALLOW_PLAINTEXT", "INTERLOCK_API_KEY", "INTERLOCK_CA", "INTERLOCK_FENCE", "INTERLOCK_LOCK",
        "INTERLOCK_SIDECAR", "INTERLOCK_TOKEN",
    ]

    /// What is no mistake for certain and most likely one: it is said, and nothing else happens.
    /// - Parameter named: the variables that the file names.
    func warnOfMistakes(in environment: [String: String], named: Set<String>, _ findings: ConfigurationFindings) {
        let known = Self.otherVariables.union(named).union(Overrides.Setting.allCases.map(\.variable))
        for variable in environment.keys.sorted() where variable.hasPrefix(Self.variablePrefix) && !known.contains(variable) {
            let all = Overrides.Setting.allCases.map(\.variable).sorted().joined(separator: ", ")
            findings.warn("\(variable) means nothing to interlock serve; it reads \(all)")
        }
        if !redis.isEmbedded, redis.isEmbeddedOnPurpose {
            findings.refuse(
                at: findings.wholeFile, path: "redis.embedded", "true, and a Redis is named besides: expected one of the two")
        }
    }

    /// What to say of a file that names no Redis; `nil`: it names one, or says that there is to be none. Without a file a sidecar is
    /// being tried out.
    public var warningOfOwnRedis: String? {
        guard redis.isEmbedded, !redis.isEmbeddedOnPurpose else { return nil }
        return
            "no Redis is named: this sidecar locks and counts for this host alone. Name the one that the fleet shares as redis.url, or "
            + "say redis.embedded: true, without which the next version refuses to start"
    }
}
