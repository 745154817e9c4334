public import InterlockJudge

/// The services of a run, and what each is asked for; all by their numbers.
public struct LoadServices: Hashable, Sendable {
    public var rules: [ServiceRules]
    /// Of which `LIMIT.TAKE` takes.
    public var takes: [Int]
    /// For which permits are asked.
    public var permits: [Int]
    /// Which are called through the proxy.
    public var proxied: [Int]
    /// Whose calls name a subject.
    public var subjects: Set<Int>

    public init(
        rules: [ServiceRules] = [], takes: [Int] = [], permits: [Int] = [], proxied: [Int] = [], subjects: Set<Int>? = nil
    ) {
        self.rules = rules
        self.takes = takes
        self.permits = permits
        self.proxied = proxied
        self.subjects = subjects ?? Set(rules.indices.filter { rules[$0].limits.contains(where: \.isPerSubject) })
    }

    /// Services of somebody's own sidecars, of whose rules nothing is known here: nothing is judged by them.
    public static func named(_ names: [String], for workload: Workload) -> LoadServices {
        let all = Array(names.indices)
        return LoadServices(
            rules: names.map { ServiceRules(name: $0, limits: []) },
            takes: workload == .limit || workload == .mixed ? all : [],
            permits: workload == .permit || workload == .mixed ? all : [],
            proxied: workload == .proxy ? all : [])
    }
}
