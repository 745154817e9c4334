internal import Interlock
internal import InterlockCore

/// What the sidecars of a run hear and say of their breakers. Their messages are read once for all.
final class BreakerNews {
    /// How a service is called: its number in the party.
    private let indices: [String: Int]
    /// Of the party's first service, in the history.
    private let firstNumber: Int
    private var last: (text: String, reading: (Int, BreakerSnapshot, redisTime: Int64)?)?

    init(services: [SimulatedService], firstNumber: Int) {
        indices = Dictionary(uniqueKeysWithValues: services.map { ($0.definition.name, $0.index) })
        self.firstNumber = firstNumber
    }

    /// A message of the event channel, as `EventReading` has it.
    func read(_ text: String) -> (service: Int, snapshot: BreakerSnapshot, redisTime: Int64)? {
        if let last, last.text == text { return last.reading }
        var reading: (Int, BreakerSnapshot, redisTime: Int64)?
        if let event = InterlockEvent<EventPayload>(json: Array(text.utf8)), case .breaker(let change) = event.payload,
            let index = indices[change.service]
        {
            reading = (index, change.breaker, event.atMilliseconds)
        }
        last = (text, reading)
        return reading
    }

    /// A sidecar acts on this state from now on.
    func seen(
        by sidecar: SimulatedSidecar, _ service: SimulatedService, _ snapshot: BreakerSnapshot, until: Instant?
    ) {
        sidecar.world.record(
            .breakerSeen(
                sidecar: sidecar.number, service: firstNumber + service.index, state: snapshot.state,
                generation: snapshot.generation, until: until))
    }
}
