package import NIOCore

/// One timer that serves one deadline after another. To move a deadline later, or to call it off, costs nothing: the timer is looked
/// at when it goes off. Confined to its event loop.
package final class LazyAlarm {
    private let eventLoop: any EventLoop
    private let action: () -> Void
    private var due: NIODeadline?
    private var armed: (at: NIODeadline, timer: Scheduled<Void>)?

    /// - Parameter action: called when a deadline has come; it keeps what it captures until `cancel`.
    package init(on eventLoop: any EventLoop, action: @escaping () -> Void) {
        self.eventLoop = eventLoop
        self.action = action
    }

    /// Goes off at `deadline` or soon after, and not at the one that was set before.
    package func set(_ deadline: NIODeadline) {
        due = deadline
        if let armed {
            guard deadline < armed.at else { return }
            armed.timer.cancel()
        }
        arm(deadline)
    }

    /// No deadline is set.
    func clear() { due = nil }

    /// It is not used any more.
    package func cancel() {
        due = nil
        armed?.timer.cancel()
        armed = nil
    }

    private func arm(_ deadline: NIODeadline) {
        armed = (deadline, eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in goOff() })
    }

    private func goOff() {
        armed = nil
        guard let due else { return }
        guard due <= eventLoop.now else { return arm(due) }
        self.due = nil
        action()
    }
}
