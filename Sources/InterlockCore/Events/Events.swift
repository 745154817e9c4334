/// Events of the fleet: `coordinator.events`, or `client.events` of a sidecar's client.
///
/// Events are hints: an event that is published while there is no connection is missed. Subscribe first, then read the
/// state, and read the state again after each `EventConnection.following`.
public struct Events: Sendable {
    private let subscriptions: EventSubscriptions

    package init(_ subscriptions: EventSubscriptions) {
        self.subscriptions = subscriptions
    }

    /// Changes of breakers.
    public var breakers: EventSequence<InterlockEvent<BreakerEvent>> {
        payloads { if case .breaker(let payload) = $0 { payload } else { nil } }
    }

    /// Changes of locks other than grants and releases.
    public var locks: EventSequence<InterlockEvent<LockEvent>> {
        payloads { if case .lock(let payload) = $0 { payload } else { nil } }
    }

    /// Limits that are nearly used up, are reached, or would have refused a call. A coordinator receives its own events
    /// even while Redis is unreachable.
    public var limits: EventSequence<InterlockEvent<LimitEvent>> {
        payloads { if case .limit(let payload) = $0 { payload } else { nil } }
    }

    /// Sidecars that join and leave.
    public var fleet: EventSequence<InterlockEvent<FleetEvent>> {
        payloads { if case .fleet(let payload) = $0 { payload } else { nil } }
    }

    /// All events exactly as published, for forwarding. Includes types that this version does not know.
    public var json: EventSequence<EventMessage> {
        EventSequence(subscriptions) { $0.receivedEvent?.message }
    }

    /// Changes of the connection that events arrive over. The first element is the current state, once it is known.
    public var connection: EventSequence<EventConnection> {
        EventSequence(subscriptions) { if case .connection(let connection) = $0 { connection } else { nil } }
    }

    /// Events and changes of the connection, in order.
    package var messages: EventSequence<SubscriptionMessage> { EventSequence(subscriptions) { $0 } }

    /// The number of subscriptions.
    package var subscriptionCount: Int { subscriptions.count }

    private func payloads<Payload>(
        _ select: @escaping @Sendable (EventPayload) -> Payload?
    ) -> EventSequence<InterlockEvent<Payload>> {
        EventSequence(subscriptions) { $0.receivedEvent?.event?.compactMapPayload(select) }
    }
}
