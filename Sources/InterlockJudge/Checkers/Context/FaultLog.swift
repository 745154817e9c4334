internal import InterlockCore

/// The faults of a run so far, with the active effects and their last start and end. Checkers use it to excuse findings
/// that a fault explains. Uses O(sidecars) memory.
struct FaultLog: Sendable {
    private struct Track: Sendable {
        var active = 0
        var lastBegin = Instant.distantPast
        var lastEnd = Instant.distantPast

        func wasActive(since instant: Instant) -> Bool { active > 0 || lastEnd >= instant }

        mutating func end(at instant: Instant) {
            active -= 1
            lastEnd = instant
        }
    }

    /// The maximum number of remembered ends of count-losing faults.
    private static let maximumEnds = 32

    private var active: [Int: (kind: FaultKind, sidecar: Int?)] = [:]
    /// Every fault, by effect.
    private var all = [Track](repeating: Track(), count: FaultEffect.allCases.count)
    /// Faults that are not specific to one sidecar, by effect.
    private var common = [Track](repeating: Track(), count: FaultEffect.allCases.count)
    /// Faults of one sidecar, by sidecar and effect.
    private var bySidecar: [Int: [Track]] = [:]
    /// The times at which the latest count-losing faults ended.
    private var lossEnds: [Instant] = []
    /// The time of the last jump of the Redis clock. The jump may have been back to the correct time.
    private(set) var lastClockJump = Instant.distantPast

    /// Whether failovers lose no locks; see `HistoryRules.keepsLocks`.
    private let keepsLocks: Bool

    init(keepsLocks: Bool = false) {
        self.keepsLocks = keepsLocks
    }

    var isEmpty: Bool { all[FaultEffect.any.rawValue].active == 0 && all[FaultEffect.any.rawValue].lastEnd == .distantPast }

    /// The number of active faults.
    var activeCount: Int { active.count }

    /// Records the start of a fault. Returns `false` if a fault with this number is already active.
    mutating func began(_ fault: Int, _ kind: FaultKind, sidecar: Int?, at instant: Instant) -> Bool {
        guard active.updateValue((kind, sidecar), forKey: fault) == nil else { return false }
        if kind.mayCause(.clockJump) { lastClockJump = instant }
        change(kind, sidecar) { track in
            track.active += 1
            track.lastBegin = instant
        }
        return true
    }

    /// Records the end of a fault, and returns the fault; `nil` if no active fault has this number.
    mutating func ended(_ fault: Int, at instant: Instant) -> (kind: FaultKind, sidecar: Int?)? {
        guard let ended = active.removeValue(forKey: fault) else { return nil }
        if ended.kind.mayCause(.clockJump) { lastClockJump = instant }
        change(ended.kind, ended.sidecar) { $0.end(at: instant) }
        if ended.kind.mayCause(.lostCounts) {
            if lossEnds.count == Self.maximumEnds { lossEnds.removeFirst() }
            lossEnds.append(instant)
        }
        return ended
    }

    private mutating func change(_ kind: FaultKind, _ sidecar: Int?, _ body: (inout Track) -> Void) {
        for effect in kind.effects where !(keepsLocks && kind == .failover && effect == .lostExclusivity) {
            body(&all[effect.rawValue])
            if let sidecar {
                body(&bySidecar[sidecar, default: common.map { _ in Track() }][effect.rawValue])
            } else {
                body(&common[effect.rawValue])
            }
        }
    }

    /// Returns whether a fault with this effect was active at any time since `instant`.
    func wasActive(_ effect: FaultEffect, since instant: Instant) -> Bool {
        all[effect.rawValue].wasActive(since: instant)
    }

    /// Returns the same as `wasActive(_:since:)`, but ignores faults of other sidecars.
    func wasActive(_ effect: FaultEffect, sidecar: Int, since instant: Instant) -> Bool {
        guard wasActive(effect, since: instant) else { return false }
        return common[effect.rawValue].wasActive(since: instant)
            || bySidecar[sidecar]?[effect.rawValue].wasActive(since: instant) ?? false
    }

    func isActive(_ effect: FaultEffect, sidecar: Int) -> Bool {
        common[effect.rawValue].active > 0 || bySidecar[sidecar]?[effect.rawValue].active ?? 0 > 0
    }

    /// Returns when a fault with this effect, of this sidecar or common to all, last ended.
    func lastEnd(of effect: FaultEffect, sidecar: Int) -> Instant {
        max(common[effect.rawValue].lastEnd, bySidecar[sidecar]?[effect.rawValue].lastEnd ?? .distantPast)
    }

    /// Returns when a fault with this effect, of this sidecar or common to all, last began.
    func lastBegin(of effect: FaultEffect, sidecar: Int) -> Instant {
        max(common[effect.rawValue].lastBegin, bySidecar[sidecar]?[effect.rawValue].lastBegin ?? .distantPast)
    }

    /// Returns when count-losing faults ended since `instant`. The oldest are missing if there were more than
    /// `maximumEnds`.
    func countLossEnds(since instant: Instant) -> [Instant] {
        lossEnds.filter { $0 >= instant }
    }

    /// Returns how many count-losing faults were active at any time since `instant`. The oldest are missing if more
    /// than `maximumEnds` ended.
    func lostCounts(since instant: Instant) -> Int {
        let track = all[FaultEffect.lostCounts.rawValue]
        guard track.wasActive(since: instant) else { return 0 }
        return track.active + lossEnds.count { $0 >= instant }
    }

    var isLosingCounts: Bool { all[FaultEffect.lostCounts.rawValue].active > 0 }

    /// Returns whether fences may fall: Redis lost its data and its clock was set back. Any jump of the clock counts,
    /// because the return from an earlier jump sets it back too.
    func fencesMayFall(since instant: Instant) -> Bool {
        lastClockJump > .distantPast && wasActive(.lostData, since: instant)
    }
}
