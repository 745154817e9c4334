internal import InterlockCore

/// The faults of a run so far: which effects are active, and when each last began and ended. Checkers excuse findings
/// that a fault explains. Uses O(sidecars) memory.
struct FaultLog: Sendable {
    /// The history of one effect.
    private struct EffectTrack: Sendable {
        var activeCount = 0
        var lastBegin = Instant.distantPast
        var lastEnd = Instant.distantPast

        func wasActive(since instant: Instant) -> Bool { activeCount > 0 || lastEnd >= instant }

        mutating func end(at instant: Instant) {
            activeCount -= 1
            lastEnd = instant
        }
    }

    /// The maximum number of remembered ends of count-losing faults.
    private static let maximumEnds = 32

    private var activeFaults: [Int: (kind: FaultKind, sidecar: Int?)] = [:]
    /// The tracks of all faults, by effect.
    private var tracks = [EffectTrack](repeating: EffectTrack(), count: FaultEffect.allCases.count)
    /// The tracks of faults that are not specific to one sidecar, by effect.
    private var sharedTracks = [EffectTrack](repeating: EffectTrack(), count: FaultEffect.allCases.count)
    /// The tracks of faults of one sidecar, by sidecar and effect.
    private var sidecarTracks: [Int: [EffectTrack]] = [:]
    /// The times at which the latest count-losing faults ended.
    private var lossEnds: [Instant] = []
    /// The time of the last jump of the Redis clock. A jump back to the correct time counts too.
    private(set) var lastClockJump = Instant.distantPast

    /// Whether failovers lose no locks; see `HistoryRules.keepsLocks`.
    private let keepsLocks: Bool

    init(keepsLocks: Bool = false) {
        self.keepsLocks = keepsLocks
    }

    var isEmpty: Bool {
        let track = tracks[FaultEffect.any.rawValue]
        return track.activeCount == 0 && track.lastEnd == .distantPast
    }

    /// The number of active faults.
    var activeCount: Int { activeFaults.count }

    /// Records the start of a fault. Returns `false` if a fault with this number is already active.
    mutating func faultBegan(_ fault: Int, _ kind: FaultKind, sidecar: Int?, at instant: Instant) -> Bool {
        guard activeFaults.updateValue((kind, sidecar), forKey: fault) == nil else { return false }
        if kind.mayCause(.clockJump) { lastClockJump = instant }
        updateTracks(kind, sidecar) { track in
            track.activeCount += 1
            track.lastBegin = instant
        }
        return true
    }

    /// Records the end of a fault, and returns the fault; `nil` if no active fault has this number.
    mutating func faultEnded(_ fault: Int, at instant: Instant) -> (kind: FaultKind, sidecar: Int?)? {
        guard let ended = activeFaults.removeValue(forKey: fault) else { return nil }
        if ended.kind.mayCause(.clockJump) { lastClockJump = instant }
        updateTracks(ended.kind, ended.sidecar) { $0.end(at: instant) }
        if ended.kind.mayCause(.lostCounts) {
            if lossEnds.count == Self.maximumEnds { lossEnds.removeFirst() }
            lossEnds.append(instant)
        }
        return ended
    }

    private mutating func updateTracks(_ kind: FaultKind, _ sidecar: Int?, _ body: (inout EffectTrack) -> Void) {
        for effect in kind.effects where !(keepsLocks && kind == .failover && effect == .lostExclusivity) {
            body(&tracks[effect.rawValue])
            if let sidecar {
                body(&sidecarTracks[sidecar, default: sharedTracks.map { _ in EffectTrack() }][effect.rawValue])
            } else {
                body(&sharedTracks[effect.rawValue])
            }
        }
    }

    /// Returns whether a fault with this effect was active at any time since `instant`.
    func wasActive(_ effect: FaultEffect, since instant: Instant) -> Bool {
        tracks[effect.rawValue].wasActive(since: instant)
    }

    /// Returns the same as `wasActive(_:since:)`, but ignores faults of other sidecars.
    func wasActive(_ effect: FaultEffect, sidecar: Int, since instant: Instant) -> Bool {
        guard wasActive(effect, since: instant) else { return false }
        return sharedTracks[effect.rawValue].wasActive(since: instant)
            || sidecarTracks[sidecar]?[effect.rawValue].wasActive(since: instant) ?? false
    }

    func isActive(_ effect: FaultEffect, sidecar: Int) -> Bool {
        sharedTracks[effect.rawValue].activeCount > 0 || sidecarTracks[sidecar]?[effect.rawValue].activeCount ?? 0 > 0
    }

    /// Returns when a fault with this effect, of this sidecar or common to all, last ended.
    func lastEnd(of effect: FaultEffect, sidecar: Int) -> Instant {
        max(sharedTracks[effect.rawValue].lastEnd, sidecarTracks[sidecar]?[effect.rawValue].lastEnd ?? .distantPast)
    }

    /// Returns when a fault with this effect, of this sidecar or common to all, last began.
    func lastBegin(of effect: FaultEffect, sidecar: Int) -> Instant {
        max(sharedTracks[effect.rawValue].lastBegin, sidecarTracks[sidecar]?[effect.rawValue].lastBegin ?? .distantPast)
    }

    /// Returns the times since `instant` at which count-losing faults ended. The oldest are missing if there were more
    /// than `maximumEnds`.
    func endsOfCountLosingFaults(since instant: Instant) -> [Instant] {
        lossEnds.filter { $0 >= instant }
    }

    /// Returns how many count-losing faults were active at any time since `instant`. The oldest are missing if more
    /// than `maximumEnds` ended.
    func numberOfCountLosingFaults(since instant: Instant) -> Int {
        let track = tracks[FaultEffect.lostCounts.rawValue]
        guard track.wasActive(since: instant) else { return 0 }
        return track.activeCount + lossEnds.count { $0 >= instant }
    }

    var isLosingCounts: Bool { tracks[FaultEffect.lostCounts.rawValue].activeCount > 0 }

    /// Returns whether fences may fall: Redis lost its data and its clock was set back. Any jump of the clock counts,
    /// because the return from an earlier jump sets it back too.
    func fencesMayFall(since instant: Instant) -> Bool {
        lastClockJump > .distantPast && wasActive(.lostData, since: instant)
    }
}
