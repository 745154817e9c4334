internal import InterlockCore

/// The faults of a run so far, as far as somebody has to make allowance for them: what each kind may bring about, whether that
/// lasts, and when it last did. Bounded by sidecars.
struct FaultLog: Sendable {
    /// What a fault may bring about.
    enum Effect: Int, CaseIterable, Sendable {
        /// Two may believe that they hold a lock.
        case lostExclusivity
        /// Redis may forget what it counted.
        case lostCounts
        /// Redis has forgotten everything.
        case lostData
        /// A sidecar may act by what `when_redis_is_down` says: also one that was stopped for longer than Redis may take to
        /// answer, and one that starts.
        case outage
        /// A sidecar answers nobody.
        case silence
        /// A sidecar has forgotten what it knew.
        case newProcess
        /// Locks are not passed on as they should be, also among sidecars that nothing is wrong with.
        case disturbedLocks
        /// Calls of services are answered otherwise than they should be, or late.
        case disturbedServices
        /// What was sent may arrive, or be carried out, when the fault is over.
        case heldBack
        /// Votes of a quorum are lost; a lock of it goes on being passed on, if later.
        case lostVotes
        /// What a sidecar hears, and tells, may come late.
        case lateNews
        /// Anything but that Redis' clock jumps.
        case otherThanClock
        /// Anything but that a sidecar answers nobody, or that programs die.
        case otherThanSilence
        /// Redis, or a server of a quorum, is away from a sidecar for more than being full.
        case cutOff
        /// Anything.
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

    /// How many ends of faults that lose counts are kept.
    private static let keptEnds = 32

    private var underWay: [Int: (kind: FaultKind, sidecar: Int?)] = [:]
    /// By effect: of all faults.
    private var all = [Track](repeating: Track(), count: Effect.allCases.count)
    /// By effect: of those that concern Redis, or everything.
    private var common = [Track](repeating: Track(), count: Effect.allCases.count)
    /// By sidecar and effect: of those that concern one sidecar.
    private var own: [Int: [Track]] = [:]
    /// When faults that lose counts have ended, the last ones.
    private var countsLost: [Instant] = []
    /// When Redis' clock last jumped: it may have been set back, if only to what it was before.
    private(set) var lastClockJump = Instant.distantPast

    var isEmpty: Bool { all[Effect.any.rawValue].underWay == 0 && all[Effect.any.rawValue].lastEnd == .distantPast }

    /// How many there are at present.
    var underWayCount: Int { underWay.count }

    /// `false`: there is a fault of this number already.
    mutating func began(_ fault: Int, _ kind: FaultKind, sidecar: Int?, at instant: Instant) -> Bool {
        guard underWay.updateValue((kind, sidecar), forKey: fault) == nil else { return false }
        if kind == .clock { lastClockJump = instant }
        change(kind, sidecar) { track in
            track.underWay += 1
            track.lastBegin = instant
        }
        return true
    }

    /// What ended; `nil`: there is no such fault.
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

    /// Whether such a fault lasted at some time from `instant` on.
    func touches(_ effect: Effect, since instant: Instant) -> Bool {
        all[effect.rawValue].touches(since: instant)
    }

    /// The same of faults that concern this sidecar or all.
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

    /// When faults that lose counts have ended since `instant`; the oldest of very many may be missing.
    func endsOfLostCounts(since instant: Instant) -> [Instant] {
        countsLost.filter { $0 >= instant }
    }

    /// How many faults that lose counts lasted at some time from `instant` on; the oldest of very many may be missed.
    func lostCounts(since instant: Instant) -> Int {
        let track = all[Effect.lostCounts.rawValue]
        guard track.touches(since: instant) else { return 0 }
        return track.underWay + countsLost.count { $0 >= instant }
    }

    var isLosingCounts: Bool { all[Effect.lostCounts.rawValue].underWay > 0 }

    /// The one exception to rising fences: Redis was wiped, and its clock is, or was before that, another than it had been. So
    /// it is taken to be whenever it was wiped from `instant` on and its clock has ever jumped.
    func fencesMayFall(since instant: Instant) -> Bool {
        lastClockJump > .distantPast && touches(.lostData, since: instant)
    }
}

extension FaultKind {
    /// What was sent may arrive, or be carried out, when it is over.
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
