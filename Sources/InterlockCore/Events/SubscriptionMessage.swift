/// A piece of news for subscriptions.
package enum SubscriptionMessage: Sendable {
    case event(ReceivedEvent)
    case connection(EventConnection)

    var received: ReceivedEvent? {
        if case .event(let event) = self { event } else { nil }
    }
}
