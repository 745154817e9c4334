package import NIOCore

/// A timer for one deadline after another. Postponing or clearing a deadline costs nothing, because the timer checks
/// the deadline only when it fires. Confined to its event loop.
package final class LazyTimer {
    private let eventLoop: any EventLoop
    private let action: () -> Void
    private var deadline: NIODeadline?
    private var armed: (at: NIODeadline, timer: Scheduled<Void>)?

    /// Creates a timer without a deadline.
    /// - Parameter action: called when a deadline has passed.
    package init(on eventLoop: any EventLoop, action: @escaping () -> Void) {
        self.eventLoop = eventLoop
        self.action = action
    }

    /// Sets a deadline, which replaces the previous one. The timer fires then or soon after.
    package func set(_ deadline: NIODeadline) {
        self.deadline = deadline
        if let armed {
            guard deadline < armed.at else { return }
            armed.timer.cancel()
        }
        arm(deadline)
    }

    func clear() { deadline = nil }

    /// Clears the deadline and cancels the timer, which releases the captures of `action`.
    package func cancel() {
        deadline = nil
        armed?.timer.cancel()
        armed = nil
    }

    private func arm(_ deadline: NIODeadline) {
        armed = (deadline, eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in fire() })
    }

    private func fire() {
        armed = nil
        guard let deadline else { return }
        guard deadline <= eventLoop.now else { return arm(deadline) }
        self.deadline = nil
        action()
    }
}
