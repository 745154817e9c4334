/// The clients of one party in one run, and the room that they need in each sidecar.
protocol SimulatedCrowd: AnyObject {
    /// What the history of its services is judged by.
    var services: [ServiceRules] { get }
    /// The most that an operation of its clients may take beyond its wait while nothing is broken, in ms.
    var patience: Int64 { get }

    /// Gives a sidecar that starts its room.
    func furnish(_ sidecar: SimulatedSidecar)
    /// Its clients begin.
    func start(in fleet: SimulatedFleet)
    /// Its clients begin nothing new: what is under way goes on to its end.
    func stop()
    /// Nothing is under way any more.
    var isIdle: Bool { get }
}
