package import InterlockJudge

/// The services of a run and the operations that each is used for, by service number.
package struct LoadServices: Hashable, Sendable {
    package var rules: [ServiceRules]
    /// The services used with `LIMIT.TAKE`.
    package var takes: [Int]
    /// The services used with permits.
    package var permits: [Int]
    /// The services called through the proxy.
    package var proxied: [Int]
    /// The services whose calls name a subject.
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

    /// Creates services of sidecars that the harness did not start. Their rules are unknown and not checked.
    package static func named(_ names: [String], for workload: Workload) -> LoadServices {
        let all = Array(names.indices)
        return LoadServices(
            rules: names.map { ServiceRules(name: $0, limits: []) },
            takes: workload == .limit || workload == .mixed ? all : [],
            permits: workload == .permit || workload == .mixed ? all : [],
            proxied: workload == .proxy ? all : [])
    }
}
