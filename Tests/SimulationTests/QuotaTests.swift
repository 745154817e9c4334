import Interlock
import InterlockCore
import Testing

@testable import Simulation

/// A data plane that behaves like Envoy: it applies its last assignment until that expires, and reports every five
/// seconds.
private final class DataPlane {
    static let bucket = [DescriptorEntry(key: "tenant", value: "acme")]

    private let stage: Stage
    private let sidecar: Int
    private let address: String
    private var session: QuotaSession?
    /// The last assignment, and the time at which it expires.
    private(set) var last: (action: QuotaAction, until: Int64)?
    /// The delay of assignments, in milliseconds.
    var delay: Int64 = 0
    private var hasReported = false
    /// Whether assignments are lost on their way to this data plane.
    var losesAssignments = false

    init(on stage: Stage, through sidecar: Int, address: String) {
        self.stage = stage
        self.sidecar = sidecar
        self.address = address
    }

    /// The number of requests that may pass per second.
    var assigned: Int64 {
        guard let last, last.until > stage.milliseconds else { return 0 }
        return if case .quota(let tokens, _) = last.action { tokens } else { 0 }
    }

    func report(_ requests: Int64) {
        stage.sidecars[sidecar].call { [self] coordinator in
            session =
                session
                ?? coordinator.beginQuotaSession(domain: "edge", address: address, isReturning: hasReported) {
                    [weak self] assignments in
                    guard let self, !losesAssignments else { return }
                    stage.after(milliseconds: delay) { [weak self] in self?.receive(assignments[0].action) }
                }
            hasReported = true
            session?.report([QuotaUsage(bucket: Self.bucket, requestCount: requests)])
        }
    }

    private func receive(_ action: QuotaAction) {
        last = action == .abandon ? nil : (action, stage.milliseconds + QuotaRate.lifetimeSeconds * 1000)
    }

    /// Ends the stream. The last assignment stays valid.
    func disconnect() {
        stage.sidecars[sidecar].call { [self] _ in
            session?.end()
            session = nil
        }
    }
}

@Suite("Quotas of data planes", .timeLimit(.minutes(2)))
struct QuotaTests {
    private static let limit: Int64 = 10

    private static func domain(limit: Int64 = limit) -> RateLimitDomain {
        let limit = LimitDefinition(name: "1s", limit: limit, window: .seconds(1))
        return RateLimitDomain(
            name: "edge", rules: [DescriptorRule(key: "tenant", limit: .rate(limit, isAligned: false))])
    }

    private static func stage(sidecars: Int = 2, _ policy: OutagePolicy = .local) -> Stage {
        var domain = domain()
        domain.whenRedisIsDown = policy
        var settings = DomainSettings()
        settings.definitions = [domain]
        return Stage(sidecars: sidecars, domains: settings)
    }

    /// Runs one round of reports, each with the given number of requests per second.
    private static func round(_ stage: Stage, _ planes: [(plane: DataPlane, rate: Int64)]) {
        for (plane, rate) in planes { plane.report(rate * 5) }
        stage.run(milliseconds: 5000)
    }

    @Test(
        "At most the limit is assigned while data planes join, leave, disconnect and lag",
        arguments: 1...20 as ClosedRange<UInt64>, [1, 3, 5])
    func neverTooMuch(seed: UInt64, hosts: Int) {
        var random = SeededRandom(seed: seed)
        let stage = Self.stage()
        let planes = (0..<5).map { DataPlane(on: stage, through: $0 % 2, address: "10.0.0.\($0 % hosts)") }
        var maximum: Int64 = 0
        for _ in 0..<60 {
            for plane in planes {
                switch Int.random(in: 0..<12, using: &random) {
                case 0: plane.disconnect()
                case 1: plane.losesAssignments.toggle()
                case 2: plane.delay = .random(in: 0...2000, using: &random)
                case 3...8: plane.report(.random(in: 0...60, using: &random))
                default: break
                }
            }
            for _ in 0..<20 {
                stage.run(milliseconds: 100)
                maximum = max(maximum, planes.reduce(0) { $0 + $1.assigned })
            }
        }
        #expect(maximum <= Self.limit)
        #expect(maximum > Self.limit / 2)
    }

    @Test("Data planes that need more than the limit get equal portions once the first one's former quota has expired")
    func even() {
        let stage = Self.stage()
        let (first, second) = (
            DataPlane(on: stage, through: 0, address: "10.0.0.1"), DataPlane(on: stage, through: 1, address: "10.0.0.2")
        )
        Self.round(stage, [(first, 50)])
        #expect(first.assigned == 10)
        for _ in 0..<10 { Self.round(stage, [(first, 50), (second, 50)]) }
        #expect(first.assigned == 5 && second.assigned == 5)
        for _ in 0..<10 { Self.round(stage, [(first, 50), (second, 1)]) }
        #expect(first.assigned == 8 && second.assigned == 2)
    }

    @Test("When the limit is lowered each data plane continues with its fair portion and is never denied completely")
    func lowered() {
        let stage = Self.stage()
        let planes = (0..<5).map { DataPlane(on: stage, through: $0 % 2, address: "10.0.0.\($0)") }
        for _ in 0..<10 { Self.round(stage, planes.map { ($0, 50) }) }
        #expect(planes.map(\.assigned) == [2, 2, 2, 2, 2])
        for sidecar in stage.sidecars { sidecar.reload(domains: [Self.domain(limit: 5)]) }
        for _ in 0..<8 {
            Self.round(stage, planes.map { ($0, 50) })
            #expect(planes.allSatisfy { $0.assigned >= 1 })
        }
        #expect(planes.map(\.assigned) == [1, 1, 1, 1, 1])
    }

    @Test("A data plane that reconnects keeps its quota")
    func dataPlaneThatReconnectsKeepsQuota() {
        let stage = Self.stage()
        let plane = DataPlane(on: stage, through: 0, address: "10.0.0.1")
        Self.round(stage, [(plane, 50)])
        plane.disconnect()
        Self.round(stage, [(plane, 50)])
        #expect(plane.assigned == 10)
        stage.run(milliseconds: 10_100)
        #expect(plane.assigned == 0)
    }

    @Test("When several data planes at one address disconnect, no quota in use is assigned to another", arguments: [false, true])
    func broken(together: Bool) {
        let stage = Self.stage(sidecars: 1)
        let busy = DataPlane(on: stage, through: 0, address: "10.0.0.1")
        let idle = DataPlane(on: stage, through: 0, address: "10.0.0.1")
        for _ in 0..<12 { Self.round(stage, [(busy, 50), (idle, 1)]) }
        #expect((busy.assigned, idle.assigned) == (8, 2))
        var maximum: Int64 = 0
        func run(milliseconds: Int64) {
            for _ in 0..<milliseconds / 100 {
                stage.run(milliseconds: 100)
                maximum = max(maximum, busy.assigned + idle.assigned)
            }
        }
        busy.disconnect()
        if !together { run(milliseconds: 1000) }
        idle.disconnect()
        idle.report(5)
        run(milliseconds: 20_000)
        #expect(maximum == Self.limit)
    }

    @Test(
        "Without Redis a data plane gets the domain's outage policy or nothing",
        arguments: [(.allow, .allow), (.deny, .deny), (.local, nil)] as [(OutagePolicy, QuotaAction?)])
    func outage(policy: OutagePolicy, action: QuotaAction?) {
        let stage = Self.stage(sidecars: 1, policy)
        let plane = DataPlane(on: stage, through: 0, address: "10.0.0.1")
        Self.round(stage, [(plane, 50)])
        stage.path(of: 0).isBlackHole = true
        stage.run(milliseconds: 20_000)
        plane.report(50)
        stage.run(milliseconds: 10_000)
        #expect(plane.assigned == 0)
        #expect(
            plane.last?.action == action ?? .quota(10, of: QuotaRate(LimitDefinition(name: "1s", limit: 10, window: .seconds(1))))
        )
    }

    @Test("A bucket that is not used is removed")
    func bucketThatIsNotUsedIsRemoved() {
        let stage = Self.stage(sidecars: 1)
        let plane = DataPlane(on: stage, through: 0, address: "10.0.0.1")
        Self.round(stage, [(plane, 1)])
        for _ in 0..<58 { Self.round(stage, [(plane, 0)]) }
        #expect(plane.last != nil)
        for _ in 0..<2 { Self.round(stage, [(plane, 0)]) }
        #expect(plane.last == nil)
    }
}
