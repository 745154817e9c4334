/// What happens in the fleet, as this coordinator hears of it: `coordinator.events`.
///
/// Events are hints: what is published while the connection to Redis is away is missed. Whoever must know reads the state
/// after subscribing.
public struct Events: Sendable {
    private let subscriptions: EventSubscriptions

    init(subscriptions: EventSubscriptions) {
        self.subscriptions = subscriptions
    }

    /// Changes of breakers.
    public var breakers: EventSequence<InterlockEvent<BreakerEvent>> {
        EventSequence(subscriptions) { event in
            event.event?.narrowed { if case .breaker(let payload) = $0 { payload } else { nil } }
        }
    }

    /// What happened to locks besides grants and releases.
    public var locks: EventSequence<InterlockEvent<LockEvent>> {
        EventSequence(subscriptions) { event in
            event.event?.narrowed { if case .lock(let payload) = $0 { payload } else { nil } }
        }
    }

    /// Limits that are nearly used up, reached, or would have refused a call. Those of this coordinator are told also
    /// while Redis is away.
    public var limits: EventSequence<InterlockEvent<LimitEvent>> {
        EventSequence(subscriptions) { event in
            event.event?.narrowed { if case .limit(let payload) = $0 { payload } else { nil } }
        }
    }

    /// Sidecars that come and go.
    public var fleet: EventSequence<InterlockEvent<FleetEvent>> {
        EventSequence(subscriptions) { event in
            event.event?.narrowed { if case .fleet(let payload) = $0 { payload } else { nil } }
        }
    }

    /// All events as they were published, those of types that are not known here among them: to be passed on.
    public var json: EventSequence<EventMessage> {
        EventSequence(subscriptions) { $0.message }
    }

    /// How many subscriptions stand.
    package var subscriptionCount: Int { subscriptions.count }
}

extension Coordinator {
    /// What happens in the fleet.
    public nonisolated var events: Events { Events(subscriptions: subscriptions) }
}
