/// The ranges of valid settings in definitions. For a setting out of range, the reader of the sidecar's configuration
/// names its key, and `check()` names its property.

extension ServiceDefinition {
    package static let slotCountRange = 1...1_000_000
    package static let subjectCountRange = 1...10_000_000
    package static let permitLifetimeRange: ClosedRange<Duration> = .milliseconds(1) ... .seconds(86_400)
}

extension LimitDefinition {
    package static let limitRange: ClosedRange<Int64> = 1...maximumLimit
    package static let windowRange: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    package static let burstRange: ClosedRange<Int64> = 0...maximumBurst

    /// Describes the name expected instead of `name` for a limit; `nil` if `name` is valid. A name has no tilde,
    /// because a tilde begins the algorithm's suffix and the subject in a counter's key.
    package static func expectedName(insteadOf name: String) -> String? {
        if let expected = ResourceName.expectedPart(insteadOf: name) { return expected }
        return name.unicodeScalars.contains("~") ? "a name without \"~\"" : nil
    }

    /// The error message if the algorithm cannot count this limit exactly; `nil` if it can.
    package var algorithmViolation: String? {
        switch algorithm {
        case .fixed:
            return nil
        case .sliding:
            guard limit > Self.maximumSlidingLimit else { return nil }
            return
                "expected a limit of \(Self.maximumSlidingLimit) or less with the algorithm sliding, which remembers each grant "
                + "for its window, got \(limit); use fixed or gcra"
        case .gcra(let burst):
            guard limit <= Self.maximumGCRALimit else {
                return "expected a limit of \(Self.maximumGCRALimit) or less with the algorithm gcra, got \(limit)"
            }
            guard !cellRate.isExact else { return nil }
            return "expected a burst that refills within a hundred years, got \(burst)"
        }
    }
}

extension LimitPolicy {
    package static let pauseRange: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    package static let waitTimeRange: ClosedRange<Duration> = .zero ... .seconds(86_400)
    package static let waitingCountRange = 0...100_000
}

extension BreakerSettings {
    package static let rateRange = 0.01...1
    package static let durationRange: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    package static let callCountRange = 1...1_000_000_000
    /// A window of calls has at least one call per slice.
    package static let windowCallCountRange = windowSlices...1_000_000_000
    package static let permitCountRange = 1...10_000
    package static let reporterCountRange = 1...1000
}

extension LockSettings {
    package static let minimumTTLRange: ClosedRange<Duration> = absoluteMinimumTTL ... .seconds(86_400)
    package static let ttlRange: ClosedRange<Duration> = .milliseconds(10) ... .seconds(366 * 86_400)
    package static let waitRange: ClosedRange<Duration> = .zero ... .seconds(86_400)
    package static let replicaCountRange = 0...100
    package static let fenceLifetimeRange: ClosedRange<Duration> = .seconds(3600) ... .seconds(366 * 86_400)
}

extension [ServiceDefinition] {
    /// Checks all services.
    /// - Throws: `DefinitionError` for the first service that is invalid or has the name of another.
    package func check() throws(DefinitionError) {
        var names: Set<ExactText> = []
        for service in self {
            try service.check()
            guard names.insert(ExactText(service.name)).inserted else {
                throw DefinitionError("the service \"\(service.name)\" is defined twice")
            }
        }
    }
}

extension ServiceDefinition {
    fileprivate func check() throws(DefinitionError) {
        if let expected = ResourceName.expectedPart(insteadOf: name) {
            throw DefinitionError("a service's name: expected \(expected), got \"\(Excerpt(name))\"")
        }
        let checks = DefinitionChecks(of: "the service \"\(name)\"")
        try checks.check("concurrency", concurrency, in: Self.slotCountRange)
        try checks.check("maximumSubjects", maximumSubjects, in: Self.subjectCountRange)
        try checks.check("permitLifetime", permitLifetime, in: Self.permitLifetimeRange)
        try checks.check("onLimit.pause", onLimit.pause, in: LimitPolicy.pauseRange)
        try checks.check("onLimit.maximumWait", onLimit.maximumWait, in: LimitPolicy.waitTimeRange)
        try checks.check("onLimit.maximumWaiting", onLimit.maximumWaiting, in: LimitPolicy.waitingCountRange)
        try breaker.check(checks)
        var names: Set<ExactText> = []
        for limit in limits {
            try limit.check(checks)
            guard names.insert(ExactText(limit.name)).inserted else {
                throw checks.error("the limit \"\(limit.name)\" is defined twice")
            }
        }
    }
}

extension BreakerSettings {
    fileprivate func check(_ checks: DefinitionChecks) throws(DefinitionError) {
        try checks.check("breaker.failureRate", failureRate, in: Self.rateRange)
        try checks.check("breaker.slowRate", slowRate, in: Self.rateRange)
        try checks.check("breaker.slowCall", slowCall, in: Self.durationRange)
        try checks.check("breaker.minimumCalls", minimumCalls, in: Self.callCountRange)
        try checks.check("breaker.consecutiveFailures", consecutiveFailures, in: Self.callCountRange)
        try checks.check("breaker.reporters", reporters, in: Self.reporterCountRange)
        try checks.check("breaker.openFor", openFor, in: Self.durationRange)
        try checks.check("breaker.halfOpenPermits", halfOpenPermits, in: Self.permitCountRange)
        switch window {
        case .time(let time):
            try checks.check("breaker.window", time, in: Self.durationRange)
        case .calls(let calls):
            try checks.check("breaker.window", calls, in: Self.windowCallCountRange)
            try checks.check("breaker.minimumCalls", minimumCalls, in: 1...calls)
        }
    }
}

extension LimitDefinition {
    fileprivate func check(_ checks: DefinitionChecks) throws(DefinitionError) {
        if let expected = Self.expectedName(insteadOf: name) {
            throw checks.error("a limit's name: expected \(expected), got \"\(Excerpt(name))\"")
        }
        let checks = DefinitionChecks(of: "\(checks.subject), the limit \"\(name)\"")
        try checks.check("limit", limit, in: Self.limitRange)
        try checks.check("window", window, in: Self.windowRange)
        if case .gcra(let burst) = algorithm { try checks.check("burst", burst, in: Self.burstRange) }
        if let expected = algorithmViolation { throw checks.error(expected) }
        if requiresSubject, !isPerSubject || isShadow {
            throw checks.error("requiresSubject: expected a limit that counts per subject and is not a shadow")
        }
    }
}

extension LockSettings {
    /// Checks all settings.
    /// - Throws: `DefinitionError` for the first invalid setting.
    package func check() throws(DefinitionError) {
        let checks = DefinitionChecks(of: "the locks")
        if let keyPrefix, let expected = ResourceName.expectedPrefix(insteadOf: keyPrefix, isEmptyAllowed: true) {
            throw checks.error("keyPrefix: expected \(expected), got \"\(Excerpt(keyPrefix))\"")
        }
        try checks.check("maximumTTL", maximumTTL, in: Self.ttlRange)
        try checks.check(
            "minimumTTL", minimumTTL, in: Self.absoluteMinimumTTL...min(maximumTTL, Self.minimumTTLRange.upperBound))
        try checks.check("maximumWait", maximumWait, in: Self.waitRange)
        try checks.check("maximumHold", maximumHold, in: Self.ttlRange)
        try checks.check("waitReplicas", waitReplicas, in: Self.replicaCountRange)
        try checks.check("fenceLifetime", fenceLifetime, in: Self.fenceLifetimeRange)
    }
}

/// Checks properties of one definition. An error names the definition and the invalid property.
private struct DefinitionChecks {
    let subject: String

    init(of subject: String) {
        self.subject = subject
    }

    func error(_ message: String) -> DefinitionError { DefinitionError("\(subject): \(message)") }

    func check<Value: Comparable>(
        _ property: String, _ value: Value?, in bounds: ClosedRange<Value>
    ) throws(DefinitionError) {
        guard let value, !bounds.contains(value) else { return }
        throw error("\(property): expected \(bounds.lowerBound) to \(bounds.upperBound), got \(value)")
    }

    func check(
        _ property: String, _ range: ClosedRange<Duration>, in bounds: ClosedRange<Duration>
    ) throws(DefinitionError) {
        try check(property, range.lowerBound, in: bounds)
        try check(property, range.upperBound, in: bounds)
    }
}
