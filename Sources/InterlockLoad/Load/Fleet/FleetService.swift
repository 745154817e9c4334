public import InterlockJudge

/// A service as the harness's own sidecars are told of it.
public struct FleetService: Hashable, Sendable {
    public var rules: ServiceRules
    /// When its breaker trips, if `rules` say that it has one.
    public var breaker: Breaker
    /// Where its upstream is; `nil`: it cannot be called through the proxy.
    public var url: String?

    /// Times in ms.
    public struct Breaker: Hashable, Sendable {
        public var failurePercent = 50
        public var window: Int64 = 2000
        public var minimumCalls = 20
        public var openFor: ClosedRange<Int64> = 400...1500

        public init() {}
    }

    public init(rules: ServiceRules, breaker: Breaker = Breaker(), url: String? = nil) {
        self.rules = rules
        self.breaker = breaker
        self.url = url
    }
}
