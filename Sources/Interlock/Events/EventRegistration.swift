/// A place among those that events are handed to. It ends with `end`, and when nobody keeps it any more.
package final class EventRegistration: Sendable {
    private let onEnd: @Sendable () -> Void

    /// - Parameter onEnd: may be called more than once, on any thread.
    init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit {
        onEnd()
    }

    package func end() {
        onEnd()
    }
}
