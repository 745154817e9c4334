internal import InterlockCore
internal import InterlockJudge
internal import InterlockProcesses

/// Draws one fault after another. The kinds are dealt from a shuffled deck, so that each recurs soon. The severity of
/// each ranges from barely noticeable to far beyond every timeout.
struct FaultGenerator {
    private let kinds: [FaultKind]
    private let sidecarCount: Int
    private let lease: Duration
    private var random: SeededRandom
    private var deck: [FaultKind] = []

    init(seed: UInt64, kinds: Set<FaultKind>, sidecars: Int, lease: Duration) {
        // The order of `FaultKind` is stable, whereas the order of a set changes from process to process.
        self.kinds = FaultKind.injectable.filter { kinds.contains($0) && (sidecars > 0 || $0.target != .sidecar) }
        sidecarCount = sidecars
        self.lease = lease
        random = SeededRandom(seed: seed)
    }

    /// Returns a number drawn uniformly from 0 ..< 1.
    mutating func unit() -> Double { random.unit() }

    /// Returns the next fault; `nil` if there are no kinds to draw from.
    mutating func next() -> (action: FaultAction, duration: Duration)? {
        if deck.isEmpty { deck = kinds.shuffled(using: &random) }
        return deck.popLast().map { draw($0) }
    }

    private mutating func draw(_ kind: FaultKind) -> (action: FaultAction, duration: Duration) {
        switch kind {
        case .kill: (.kill(sidecar: sidecar()), milliseconds(50...2000))
        case .pause: (.pause(sidecar: sidecar()), lease * (1.1 + 0.5 * random.unit()))
        case .redisRestart: (.redisRestart(randomElement(of: FaultAction.RedisExit.allCases)), milliseconds(10...2000))
        case .redisPause: (.redisPause, milliseconds(100...3000))
        case .redisWipe:
            switch randomElement(of: FaultAction.RedisWipe.allCases) {
            case .killed: (.redisWipe(.killed), milliseconds(10...1000))
            case .flushed: (.redisWipe(.flushed), .zero)
            }
        case .failover:
            (.failover(randomElement(of: PrimaryLoss.allCases), serverIndex: serverIndex()), milliseconds(1500...5000))
        case .reshard: (.reshard(slots: Int.random(in: 1...8, using: &random), serverIndex: serverIndex()), .zero)
        case .nodeJoin: (.nodeJoin(slots: Int(logarithmic(64...2048))), milliseconds(500...3000))
        case .nodeLeave: (.nodeLeave(serverIndex: serverIndex()), milliseconds(500...3000))
        case .partition:
            (.partition(sidecar: sidecar(), refusesConnections: random.happens(0.5)), milliseconds(200...5000))
        case .latency:
            random.happens(0.5)
                ? (
                    .delay(
                        sidecar: sidecar(), fixedMilliseconds: logarithmic(1...400),
                        jitterMilliseconds: logarithmic(1...100)),
                    milliseconds(1000...5000)
                )
                : (
                    .trickle(
                        sidecar: sidecar(), bytes: Int(logarithmic(1...512)),
                        everyMilliseconds: Int64.random(in: 1...5, using: &random)),
                    milliseconds(500...3000)
                )
        case .reset:
            (
                .reset(
                    sidecar: sidecar(), randomElement(of: ConnectionBreak.allCases),
                    everyMilliseconds: logarithmic(20...1000)),
                milliseconds(500...4000)
            )
        case .clock:
            random.happens(0.5)
                ? (.clock(bySeconds: Int(logarithmic(1...3600))), .zero)
                : (.clock(bySeconds: -Int(logarithmic(1...3600))), milliseconds(500...3000))
        case .vanish: (.vanish(clients: Int.random(in: 1...16, using: &random)), .zero)
        case .full, .refusing, .scripts, .externalLockChange, .externalCounterDeletion, .externalRegistryDeletion, .reload,
            .quorumServer, .quorumRestart:
            preconditionFailure("\(kind) is only injected in simulations")
        }
    }

    private mutating func sidecar() -> Int { Int.random(in: 0..<sidecarCount, using: &random) }

    /// Returns an index of a server. It may exceed the number of servers, so its users reduce it modulo that number.
    private mutating func serverIndex() -> Int { Int.random(in: 0..<60, using: &random) }

    private mutating func milliseconds(_ range: ClosedRange<Int64>) -> Duration {
        .milliseconds(Int64.random(in: range, using: &random))
    }

    /// Returns a number on a logarithmic scale: every doubling is equally likely.
    private mutating func logarithmic(_ range: ClosedRange<Int64>) -> Int64 {
        var nextPower = range.lowerBound
        var powers: [Int64] = []
        while nextPower <= range.upperBound {
            powers.append(nextPower)
            nextPower *= 2
        }
        let lowest = randomElement(of: powers)
        return Int64.random(in: lowest...min(2 * lowest, range.upperBound), using: &random)
    }

    private mutating func randomElement<Element>(of all: [Element]) -> Element {
        all[Int.random(in: all.indices, using: &random)]
    }
}
