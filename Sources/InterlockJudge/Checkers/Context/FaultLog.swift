internal import InterlockCore

/// The faults of a run so far: which effects are under way, and when each last began and ended. Checkers use it to excuse
/// what a fault explains. Bounded by sidecars.
struct FaultLog: Sendable {
    /// What a fault can cause.
    enum Effect: Int, CaseIterable, Sendable {
        /// Two clients may both believe that they hold a lock.
        case lostExclusivity
        /// Redis may lose its counts.
        case lostCounts
        /// Redis has lost all its data.
        case lostData
        /// A sidecar may follow `when_redis_is_down`. That includes a sidecar that was stopped for longer than Redis' timeout, and
        /// one that is starting.
        case outage
        /// A sidecar answers nobody.
        case silence
        /// A sidecar has lost what it knew.
        case newProcess
        /// Locks are not passed on as usual, even between healthy sidecars.
        case disturbedLocks
        /// Calls to services are answered late or differently than usual.
        case disturbedServices
        /// Messages may arrive, or take effect, only after the fault.
        case heldBack
        /// Votes of a quorum are lost. Its locks are still passed on, but later.
        case lostVotes
        /// A sidecar may hear and publish news late.
        case lateNews
        /// Any fault except a jump of Redis' clock.
        case otherThanClock
        /// Any fault except silent sidecars and dying programs.
        case otherThanSilence
        /// A sidecar cannot reach Redis, or a server of its quorum. A full Redis does not count.
        case cutOff
        /// Any fault.
        case any
    }

    private struct Track: Sendable {
        var underWay = 0
        var lastBegin = Instant.distantPast
        var lastEnd = Instant.distantPast

        func touches(since instant: Instant) -> Bool { underWay > 0 || lastEnd >= instant }

        mutating func end(at instant: Instant) {
            underWay -= 1
            lastEnd = instant
        }
    }

    /// How many ends of count-losing faults are kept.
    private static let keptEnds = 32

    private var underWay: [Int: (kind: FaultKind, sidecar: Int?)] = [:]
    /// By effect: all faults.
    private var all = [Track](repeating: Track(), count: Effect.allCases.count)
    /// By effect: faults of Redis or of everything.
    private var common = [Track](repeating: Track(), count: Effect.allCases.count)
    /// By sidecar and effect: faults of that sidecar only.
    private var own: [Int: [Track]] = [:]
    /// When the latest count-losing faults ended.
    private var countsLost: [Instant] = []
    /// When Redis' clock last jumped. The jump may have been back to the right time.
    private(set) var lastClockJump = Instant.distantPast

    var isEmpty: Bool { all[Effect.any.rawValue].underWay == 0 && all[Effect.any.rawValue].lastEnd == .distantPast }

    /// How many faults are under way.
    var underWayCount: Int { underWay.count }

    /// Returns `false` if a fault of this number is already under way.
    mutating func began(_ fault: Int, _ kind: FaultKind, sidecar: Int?, at instant: Instant) -> Bool {
        guard underWay.updateValue((kind, sidecar), forKey: fault) == nil else { return false }
        if kind == .clock { lastClockJump = instant }
        change(kind, sidecar) { track in
            track.underWay += 1
            track.lastBegin = instant
        }
        return true
    }

    /// Returns the fault that ended; `nil` if there is none of this number.
    mutating func ended(_ fault: Int, at instant: Instant) -> (kind: FaultKind, sidecar: Int?)? {
        guard let ended = underWay.removeValue(forKey: fault) else { return nil }
        if ended.kind == .clock { lastClockJump = instant }
        change(ended.kind, ended.sidecar) { $0.end(at: instant) }
        if ended.kind.mayForgetCounts {
            if countsLost.count == Self.keptEnds { countsLost.removeFirst() }
            countsLost.append(instant)
        }
        return ended
    }

    private mutating func change(_ kind: FaultKind, _ sidecar: Int?, _ body: (inout Track) -> Void) {
        for effect in Effect.allCases where kind.mayCause(effect) {
            body(&all[effect.rawValue])
            if let sidecar {
                body(&own[sidecar, default: common.map { _ in Track() }][effect.rawValue])
            } else {
                body(&common[effect.rawValue])
            }
        }
    }

    /// Whether such a fault was under way at any time since `instant`.
    func touches(_ effect: Effect, since instant: Instant) -> Bool {
        all[effect.rawValue].touches(since: instant)
    }

    /// Like `touches(_:since:)`, for faults of this sidecar or of all.
    func touches(_ effect: Effect, sidecar: Int, since instant: Instant) -> Bool {
        guard touches(effect, since: instant) else { return false }
        return common[effect.rawValue].touches(since: instant) || own[sidecar]?[effect.rawValue].touches(since: instant) ?? false
    }

    func isUnderWay(_ effect: Effect, sidecar: Int) -> Bool {
        common[effect.rawValue].underWay > 0 || own[sidecar]?[effect.rawValue].underWay ?? 0 > 0
    }

    /// When such a fault of this sidecar, or of all, last ended.
    func lastEnd(of effect: Effect, sidecar: Int) -> Instant {
        max(common[effect.rawValue].lastEnd, own[sidecar]?[effect.rawValue].lastEnd ?? .distantPast)
    }

    /// When such a fault of this sidecar, or of all, last began.
    func lastBegin(of effect: Effect, sidecar: Int) -> Instant {
        max(common[effect.rawValue].lastBegin, own[sidecar]?[effect.rawValue].lastBegin ?? .distantPast)
    }

    /// When count-losing faults ended since `instant`. Misses the oldest if there were very many.
    func endsOfLostCounts(since instant: Instant) -> [Instant] {
        countsLost.filter { $0 >= instant }
    }

    /// How many count-losing faults were under way at any time since `instant`. Misses the oldest if there were very many.
    func lostCounts(since instant: Instant) -> Int {
        let track = all[Effect.lostCounts.rawValue]
        guard track.touches(since: instant) else { return 0 }
        return track.underWay + countsLost.count { $0 >= instant }
    }

    var isLosingCounts: Bool { all[Effect.lostCounts.rawValue].underWay > 0 }

    /// The one exception to rising fences: Redis lost its data, and its clock was set back. Any jump of the clock counts,
    /// because the return from an earlier jump sets it back too.
    func fencesMayFall(since instant: Instant) -> Bool {
        lastClockJump > .distantPast && touches(.lostData, since: instant)
    }
}

extension FaultKind {
    /// Messages may arrive, or take effect, only after the fault.
    var holdsBack: Bool { mayCause(.heldBack) }

    fileprivate func mayCause(_ effect: FaultLog.Effect) -> Bool {
        switch effect {
        case .lostExclusivity: mayCostExclusivity
        case .lostCounts: mayForgetCounts
        case .lostData: self == .redisWipe || self == .failover
        case .outage: cutsOffRedis || self == .kill || self == .pause
        case .silence: self == .kill || self == .pause
        case .newProcess: self == .kill
        case .disturbedLocks:
            switch self {
            case .kill, .pause, .vanish, .reload, .scripts, .foreignCounter, .foreignFleet, .quorumServer: false
            default: true
            }
        case .disturbedServices: self != .quorumServer && self != .foreignLock
        case .heldBack:
            switch self {
            case .pause, .partition, .latency, .redisPause, .quorumServer: true
            default: false
            }
        case .lostVotes: self == .quorumServer
        case .lateNews:
            switch self {
            case .kill, .pause, .partition, .latency, .reset, .redisPause: true
            default: false
            }
        case .otherThanClock: self != .clock
        case .otherThanSilence: self != .kill && self != .pause && self != .vanish
        case .cutOff: cutsOffRedis && self != .full || self == .quorumServer
        case .any: true
        }
    }
}
