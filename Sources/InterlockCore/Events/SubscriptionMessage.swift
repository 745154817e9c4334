/// An event or a change of the connection, as subscriptions receive it.
package enum SubscriptionMessage: Sendable {
    case event(ReceivedEvent)
    case connection(EventConnection)

    /// The event; `nil` for a change of the connection.
    var receivedEvent: ReceivedEvent? {
        if case .event(let event) = self { event } else { nil }
    }
}
