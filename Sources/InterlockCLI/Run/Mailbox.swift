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
        /// The answer to the acquire that was sent at `sentAt`. The lease is `nil` if another holds the lock.
        case acquired(Result<Lease?, CommandFailure>, sentAt: Instant)
        case renewed(RenewalOutcome, sentAt: Instant)
        /// The release ended: the lease was held until then or not; `nil` if unknown.
        case released(wasHeld: Bool?)
        /// The command was stopped, for example by Ctrl-Z.
        case commandStopped
        case commandEnded(TerminationStatus)
        /// The deadline may have passed.
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

    /// Waits for the next event. Returns `alarm` at `deadline`.
    func next(by deadline: Instant) async -> Event {
        let timer = deadline == .distantFuture ? nil : alarm(at: deadline)
        defer { timer?.cancel() }
        for await event in events { return event }
        // The stream is never finished, and its reader's task is never cancelled.
        preconditionFailure("the mailbox was closed")
    }

    private func alarm(at deadline: Instant) -> Task<Void, Never> {
        let pause = Duration.milliseconds(max(0, deadline.millisecondsRoundedUp(since: TimeSource.system.now())))
        return Task {
            do {
                // The sleep is cancelled if an event arrives first.
                try await Task.sleep(for: pause)
                post(.alarm)
            } catch {
                // Cancelled.
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
