import Glibc
import Interlock
import InterlockCommandLine
import InterlockCore
import Subprocess

/// The queue of all events that an `interlock run` waits for. It has one reader and any number of writers.
struct Mailbox: Sendable {
    enum Event: Sendable {
        /// A signal with this number arrived.
        case signal(Int32)
        /// The acquire that was sent at `sentAt` succeeded or failed. The lease is `nil` if another client holds the
        /// lock.
        case acquired(Result<Lease?, CommandFailure>, sentAt: Instant)
        case renewed(RenewalOutcome, sentAt: Instant)
        /// The attempt to release the lease is over. `wasHeld` is whether the lease was still held; `nil` if unknown.
        case released(wasHeld: Bool?)
        /// The command was stopped, for example by Ctrl-Z.
        case commandStopped
        case commandEnded(TerminationStatus)
        /// The deadline of a call of `next(by:)` has passed, possibly that of an earlier call.
        case alarm
    }

    private let events: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation

    init() {
        (events, continuation) = AsyncStream.makeStream()
    }

    func post(_ event: Event) {
        continuation.yield(event)
    }

    /// Waits for the next event. Returns `alarm` if none arrives by `deadline`.
    func next(by deadline: Instant) async -> Event {
        let timer = deadline == .distantFuture ? nil : alarm(at: deadline)
        defer { timer?.cancel() }
        for await event in events { return event }
        // Nothing finishes the stream or cancels the task of its reader.
        preconditionFailure("the mailbox was closed")
    }

    private func alarm(at deadline: Instant) -> Task<Void, Never> {
        let pause = Duration.milliseconds(max(0, deadline.millisecondsRoundedUp(since: TimeSource.system.now())))
        return Task {
            do {
                try await Task.sleep(for: pause)
                post(.alarm)
            } catch {
                // `next(by:)` cancels the sleep when an event arrives first.
            }
        }
    }
}

/// The outcome of a renewal.
enum RenewalOutcome: Sendable {
    case renewed
    /// The lease no longer holds the lock.
    case lost
    /// The sidecar or its Redis is unreachable.
    case unanswered
}
