internal import InterlockCore

/// What clients of services have in common: a connection that they keep, pauses between their calls, and an end.
class ServiceCaller {
    let number: Int
    let fleet: SimulatedFleet
    private(set) var connection: ClientConnection?
    private(set) var sidecar = 0
    /// Counts calls: what was planned for an earlier one is over.
    private(set) var round = 0
    private(set) var isIdle = false
    private let isStopping: () -> Bool

    init(fleet: SimulatedFleet, isStopping: @escaping () -> Bool) {
        number = fleet.nextClient()
        self.fleet = fleet
        self.isStopping = isStopping
    }

    var world: SimulatedWorld { fleet.world }

    /// Begins the next call.
    func call() {}

    /// Calls again after a pause, unless the run is ending.
    func think(_ pause: ClosedRange<Int64>) {
        round += 1
        guard !isStopping() else { return retire() }
        world.schedule(after: world.draw(pause) * SimulatedWorld.millisecond + world.draw(0...SimulatedWorld.millisecond)) {
            [unowned self] in
            if isStopping() { retire() } else { call() }
        }
    }

    private func retire() {
        hangUp()
        isIdle = true
    }

    /// Whether there is a connection now. Now and then it is another sidecar's.
    func connect(wandering: Double) -> Bool {
        if connection?.isOpen ?? false, !world.happens(wandering) { return true }
        hangUp()
        guard let (connection, sidecar) = fleet.connect() else { return false }
        self.connection = connection
        self.sidecar = sidecar
        return true
    }

    func hangUp() {
        connection?.close()
        connection = nil
    }

    func invoke(_ operation: Operation) {
        world.record(.invoked(client: number, sidecar: sidecar, operation))
    }

    func end(_ ending: OperationEnding) {
        world.record(.ended(client: number, ending))
    }

    /// The client may go away before it has its answer, within so many ms.
    func mayVanish(_ probability: Double, within milliseconds: Int64, thinking pause: ClosedRange<Int64>) {
        guard world.happens(probability) else { return }
        let round = round
        world.schedule(after: world.draw(0...max(1, milliseconds) * SimulatedWorld.millisecond)) { [unowned self] in
            guard self.round == round, connection?.isAsking ?? false else { return }
            end(.unknown(reason: OperationEnding.vanished))
            hangUp()
            think(pause)
        }
    }
}
