package import InterlockJudge

/// The services of a run and the operations that each is used for, by service number.
package struct LoadServices: Hashable, Sendable {
    package var rules: [ServiceRules]
    /// The numbers of the services used with `LIMIT.TAKE`.
    package var takeServiceNumbers: [Int]
    /// The numbers of the services used with permits.
    package var permitServiceNumbers: [Int]
    /// The numbers of the services called through the proxy.
    package var proxiedServiceNumbers: [Int]
    /// The numbers of the services whose calls name a subject.
    package var subjects: Set<Int>

    package init(
        rules: [ServiceRules] = [], takeServiceNumbers: [Int] = [], permitServiceNumbers: [Int] = [],
        proxiedServiceNumbers: [Int] = [], subjects: Set<Int>? = nil
    ) {
        self.rules = rules
        self.takeServiceNumbers = takeServiceNumbers
        self.permitServiceNumbers = permitServiceNumbers
        self.proxiedServiceNumbers = proxiedServiceNumbers
        self.subjects = subjects ?? Set(rules.indices.filter { rules[$0].limits.contains(where: \.isPerSubject) })
    }

    /// Creates services of sidecars that the harness did not start. The rules of such services are unknown, so they are
    /// not checked.
    package static func named(_ names: [String], for workload: Workload) -> LoadServices {
        let numbers = Array(names.indices)
        return LoadServices(
            rules: names.map { ServiceRules(name: $0, limits: []) },
            takeServiceNumbers: workload == .limit || workload == .mixed ? numbers : [],
            permitServiceNumbers: workload == .permit || workload == .mixed ? numbers : [],
            proxiedServiceNumbers: workload == .proxy ? numbers : [])
    }
}
