/// The interest of a follower in a lease. It ends when this object is deallocated.
final class LeaseInterest: Sendable {
    private let onEnd: @Sendable () -> Void

    init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit { onEnd() }
}
