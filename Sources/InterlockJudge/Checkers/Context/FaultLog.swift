internal import InterlockCore

/// The faults of a run so far: which effects are under way, and when each last began and ended. Checkers use it to excuse
/// what a fault explains. Bounded by sidecars.
struct FaultLog: Sendable {
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
    private var all = [Track](repeating: Track(), count: FaultEffect.allCases.count)
    /// By effect: faults of Redis or of everything.
    private var common = [Track](repeating: Track(), count: FaultEffect.allCases.count)
    /// By sidecar and effect: faults of that sidecar only.
    private var own: [Int: [Track]] = [:]
    /// When the latest count-losing faults ended.
    private var countsLost: [Instant] = []
    /// When Redis' clock last jumped. The jump may have been back to the right time.
    private(set) var lastClockJump = Instant.distantPast

    /// Whether failovers lose no lock: see `HistoryRules`.
    private let keepsLocks: Bool

    init(keepsLocks: Bool = false) {
        self.keepsLocks = keepsLocks
    }

    var isEmpty: Bool { all[FaultEffect.any.rawValue].underWay == 0 && all[FaultEffect.any.rawValue].lastEnd == .distantPast }

    /// How many faults are under way.
    var underWayCount: Int { underWay.count }

    /// Returns `false` if a fault of this number is already under way.
    mutating func began(_ fault: Int, _ kind: FaultKind, sidecar: Int?, at instant: Instant) -> Bool {
        guard underWay.updateValue((kind, sidecar), forKey: fault) == nil else { return false }
        if kind.mayCause(.clockJump) { lastClockJump = instant }
        change(kind, sidecar) { track in
            track.underWay += 1
            track.lastBegin = instant
        }
        return true
    }

    /// Returns the fault that ended; `nil` if there is none of this number.
    mutating func ended(_ fault: Int, at instant: Instant) -> (kind: FaultKind, sidecar: Int?)? {
        guard let ended = underWay.removeValue(forKey: fault) else { return nil }
        if ended.kind.mayCause(.clockJump) { lastClockJump = instant }
        change(ended.kind, ended.sidecar) { $0.end(at: instant) }
        if ended.kind.mayCause(.lostCounts) {
            if countsLost.count == Self.keptEnds { countsLost.removeFirst() }
            countsLost.append(instant)
        }
        return ended
    }

    private mutating func change(_ kind: FaultKind, _ sidecar: Int?, _ body: (inout Track) -> Void) {
        for effect in kind.effects where !(keepsLocks && kind == .failover && effect == .lostExclusivity) {
            body(&all[effect.rawValue])
            if let sidecar {
                body(&own[sidecar, default: common.map { _ in Track() }][effect.rawValue])
            } else {
                body(&common[effect.rawValue])
            }
        }
    }

    /// Whether such a fault was under way at any time since `instant`.
    func touches(_ effect: FaultEffect, since instant: Instant) -> Bool {
        all[effect.rawValue].touches(since: instant)
    }

    /// Like `touches(_:since:)`, for faults of this sidecar or of all.
    func touches(_ effect: FaultEffect, sidecar: Int, since instant: Instant) -> Bool {
        guard touches(effect, since: instant) else { return false }
        return common[effect.rawValue].touches(since: instant) || own[sidecar]?[effect.rawValue].touches(since: instant) ?? false
    }

    func isUnderWay(_ effect: FaultEffect, sidecar: Int) -> Bool {
        common[effect.rawValue].underWay > 0 || own[sidecar]?[effect.rawValue].underWay ?? 0 > 0
    }

    /// When such a fault of this sidecar, or of all, last ended.
    func lastEnd(of effect: FaultEffect, sidecar: Int) -> Instant {
        max(common[effect.rawValue].lastEnd, own[sidecar]?[effect.rawValue].lastEnd ?? .distantPast)
    }

    /// When such a fault of this sidecar, or of all, last began.
    func lastBegin(of effect: FaultEffect, sidecar: Int) -> Instant {
        max(common[effect.rawValue].lastBegin, own[sidecar]?[effect.rawValue].lastBegin ?? .distantPast)
    }

    /// When count-losing faults ended since `instant`. Misses the oldest if there were very many.
    func endsOfLostCounts(since instant: Instant) -> [Instant] {
        countsLost.filter { $0 >= instant }
    }

    /// How many count-losing faults were under way at any time since `instant`. Misses the oldest if there were very many.
    func lostCounts(since instant: Instant) -> Int {
        let track = all[FaultEffect.lostCounts.rawValue]
        guard track.touches(since: instant) else { return 0 }
        return track.underWay + countsLost.count { $0 >= instant }
    }

    var isLosingCounts: Bool { all[FaultEffect.lostCounts.rawValue].underWay > 0 }

    /// The one exception to rising fences: Redis lost its data, and its clock was set back. Any jump of the clock counts,
    /// because the return from an earlier jump sets it back too.
    func fencesMayFall(since instant: Instant) -> Bool {
        lastClockJump > .distantPast && touches(.lostData, since: instant)
    }
}
