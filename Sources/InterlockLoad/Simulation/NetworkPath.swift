internal import InterlockCore

/// The network between one sidecar and Redis, as all connections of that sidecar have it.
final class NetworkPath {
    private let world: SimulatedWorld
    /// No byte arrives before: what is sent meanwhile is sent again until it does, as TCP does.
    var blockedUntil = Instant(nanoseconds: .min)
    /// So many nanoseconds more a message may take.
    var slowness: Int64 = 0

    init(world: SimulatedWorld) {
        self.world = world
    }

    /// When something arrives that is sent now.
    func arrival() -> Instant {
        var delay = world.draw(15 * SimulatedWorld.microsecond...120 * SimulatedWorld.microsecond)
        if world.happens(0.01) { delay += world.draw(0...5 * SimulatedWorld.millisecond) }
        if slowness > 0 { delay += world.draw(0...slowness) }
        let blocked = blockedUntil > world.now ? blockedUntil : world.now
        return Instant(nanoseconds: blocked.nanoseconds + delay)
    }
}
