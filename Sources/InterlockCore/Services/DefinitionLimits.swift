/// The limits of definitions. The reader of the sidecar's configuration names the key that breaks one, and `check()`
/// names the property.

extension ServiceDefinition {
    package static let slotCounts = 1...1_000_000
    package static let subjectCounts = 1...10_000_000
    package static let permitLifetimes: ClosedRange<Duration> = .milliseconds(1) ... .seconds(86_400)
}

extension LimitDefinition {
    package static let limits: ClosedRange<Int64> = 1...maximumLimit
    package static let windows: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    package static let bursts: ClosedRange<Int64> = 0...maximumBurst

    /// Describes the name expected instead of `name` for a limit; `nil` if `name` is valid. A tilde would end the name
    /// within its key, because the algorithm's suffix and the subject begin with one.
    package static func expectedName(insteadOf name: String) -> String? {
        if let expected = ResourceName.expectedPart(insteadOf: name) { return expected }
        return name.unicodeScalars.contains("~") ? "a name without \"~\"" : nil
    }

    /// The error for a limit that the algorithm cannot count exactly; `nil` if it can.
    package var expectedOfAlgorithm: String? {
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
    package static let pauses: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    package static let waitTimes: ClosedRange<Duration> = .zero ... .seconds(86_400)
    package static let waitingCounts = 0...100_000
}

extension BreakerSettings {
    package static let rates = 0.01...1
    package static let durations: ClosedRange<Duration> = .milliseconds(1) ... .seconds(366 * 86_400)
    package static let callCounts = 1...1_000_000_000
    /// A window of calls has at least one call per slice.
    package static let windowCalls = windowSlices...1_000_000_000
    package static let permitCounts = 1...10_000
    package static let reporterCounts = 1...1000
}

extension LockSettings {
    package static let minimumTTLs: ClosedRange<Duration> = absoluteMinimumTTL ... .seconds(86_400)
    package static let ttls: ClosedRange<Duration> = .milliseconds(10) ... .seconds(366 * 86_400)
    package static let waits: ClosedRange<Duration> = .zero ... .seconds(86_400)
    package static let replicas = 0...100
    package static let fenceLifetimes: ClosedRange<Duration> = .seconds(3600) ... .seconds(366 * 86_400)
}

extension [ServiceDefinition] {
    /// - Throws: `DefinitionError` for the first service that breaks a limit or has the name of another.
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
        try checks.check("concurrency", concurrency, in: Self.slotCounts)
        try checks.check("maximumSubjects", maximumSubjects, in: Self.subjectCounts)
        try checks.check("permitLifetime", permitLifetime, in: Self.permitLifetimes)
        try checks.check("onLimit.pause", onLimit.pause, in: LimitPolicy.pauses)
        try checks.check("onLimit.patience", onLimit.maximumWait, in: LimitPolicy.waitTimes)
        try checks.check("onLimit.maximumWaiting", onLimit.maximumWaiting, in: LimitPolicy.waitingCounts)
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
        try checks.check("breaker.failureRate", failureRate, in: Self.rates)
        try checks.check("breaker.slowRate", slowRate, in: Self.rates)
        try checks.check("breaker.slowCall", slowCall, in: Self.durations)
        try checks.check("breaker.minimumCalls", minimumCalls, in: Self.callCounts)
        try checks.check("breaker.consecutiveFailures", consecutiveFailures, in: Self.callCounts)
        try checks.check("breaker.reporters", reporters, in: Self.reporterCounts)
        try checks.check("breaker.openFor", openFor, in: Self.durations)
        try checks.check("breaker.halfOpenPermits", halfOpenPermits, in: Self.permitCounts)
        switch window {
        case .time(let time):
            try checks.check("breaker.window", time, in: Self.durations)
        case .calls(let calls):
            try checks.check("breaker.window", calls, in: Self.windowCalls)
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
        try checks.check("limit", limit, in: Self.limits)
        try checks.check("window", window, in: Self.windows)
        if case .gcra(let burst) = algorithm { try checks.check("burst", burst, in: Self.bursts) }
        if let expected = expectedOfAlgorithm { throw checks.error(expected) }
        if requiresSubject, !isPerSubject || isShadow {
            throw checks.error("requiresSubject: expected a limit that counts per subject and is not a shadow")
        }
    }
}

extension LockSettings {
    /// - Throws: `DefinitionError` for the first setting that breaks a limit.
    package func check() throws(DefinitionError) {
        let checks = DefinitionChecks(of: "the locks")
        if let keyPrefix, let expected = ResourceName.expectedPrefix(insteadOf: keyPrefix, isEmptyAllowed: true) {
            throw checks.error("keyPrefix: expected \(expected), got \"\(Excerpt(keyPrefix))\"")
        }
        try checks.check("maximumTTL", maximumTTL, in: Self.ttls)
        try checks.check("minimumTTL", minimumTTL, in: Self.absoluteMinimumTTL...min(maximumTTL, Self.minimumTTLs.upperBound))
        try checks.check("maximumWait", maximumWait, in: Self.waits)
        try checks.check("maximumHold", maximumHold, in: Self.ttls)
        try checks.check("waitReplicas", waitReplicas, in: Self.replicas)
        try checks.check("fenceLifetime", fenceLifetime, in: Self.fenceLifetimes)
    }
}

/// Reports the property that breaks a limit, with its definition.
private struct DefinitionChecks {
    let subject: String

    init(of subject: String) {
        self.subject = subject
    }

    func error(_ message: String) -> DefinitionError { DefinitionError("\(subject): \(message)") }

    func check<Value: Comparable>(_ property: String, _ value: Value?, in bounds: ClosedRange<Value>) throws(DefinitionError) {
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
