package import InterlockJudge

/// The services of a run, and what each is asked for; all by their numbers.
package struct LoadServices: Hashable, Sendable {
    package var rules: [ServiceRules]
    /// Of which `LIMIT.TAKE` takes.
    package var takes: [Int]
    /// For which permits are asked.
    package var permits: [Int]
    /// Which are called through the proxy.
    package var proxied: [Int]
    /// Whose calls name a subject.
    package var subjects: Set<Int>

    package init(
        rules: [ServiceRules] = [], takes: [Int] = [], permits: [Int] = [], proxied: [Int] = [], subjects: Set<Int>? = nil
    ) {
        self.rules = rules
        self.takes = takes
        self.permits = permits
        self.proxied = proxied
        self.subjects = subjects ?? Set(rules.indices.filter { rules[$0].limits.contains(where: \.isPerSubject) })
    }

    /// Services of sidecars that were not started here: their rules are not known and not checked.
    package static func named(_ names: [String], for workload: Workload) -> LoadServices {
        let all = Array(names.indices)
        return LoadServices(
            rules: names.map { ServiceRules(name: $0, limits: []) },
            takes: workload == .limit || workload == .mixed ? all : [],
            permits: workload == .permit || workload == .mixed ? all : [],
            proxied: workload == .proxy ? all : [])
    }
}
