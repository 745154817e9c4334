internal import InterlockCore

/// One deadline that only moves nearer until it goes off: what it is for may be over by then, and is looked at again. It does
/// not go off when its owner is gone.
final class Alarm {
    private var due: (instant: Instant, entry: Deadlines.Entry)?

    /// Calls `action` at `instant` or soon after, unless it goes off before.
    func set(at instant: Instant, on deadlines: Deadlines, _ action: @escaping () -> Void) {
        if let due {
            guard instant < due.instant else { return }
            due.entry.cancel()
        }
        let entry = deadlines.schedule(at: instant) { [weak self] in
            // What `action` looks at is gone with the alarm.
            guard let self else { return }
            due = nil
            action()
        }
        due = (instant, entry)
    }

    func cancel() {
        due?.entry.cancel()
        due = nil
    }
}
