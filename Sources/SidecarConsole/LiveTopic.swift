internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// The current content of a part of a view, shared by all consoles that show it. Confined to the coordinator's event
/// loop.
final class LiveTopic {
    /// A closure that receives the content that was read, or the error, with the lifetime of the content and the number
    /// of commands that the read cost.
    typealias ReadCompletion =
        (Result<[String: JSONValue], InterlockError>, _ lifetimeMilliseconds: Int64, _ commandCount: Int) -> Void

    let part: LivePart
    /// The rendered part: one JSON object on one line; `nil` if it was not rendered yet.
    private(set) var json: ByteBuffer?
    /// A number that increases with every change of `json`.
    private(set) var version = 0
    /// The time of the last request for the topic by a console.
    var requestedAt: Instant
    /// The version of the state from which `json` was rendered; `nil` if the part is rendered every time.
    private var stamp: Int?

    /// The last read from Redis, and the state of the next one.
    fileprivate(set) var reading = LiveReading()
    /// The closures to call when the current read ends.
    private var readCompletions: [() -> Void] = []

    /// Creates a topic without content.
    /// - Parameter now: the current time. The first read is due immediately.
    init(_ part: LivePart, now: Instant) {
        self.part = part
        requestedAt = now
        reading.dueAt = now
    }

    /// Returns the topics in the order in which to read them. The one that has been due the longest comes first, so
    /// that every topic is read eventually, even if the budget allows only a few reads.
    static func sortedByDueTime(_ topics: some Collection<LiveTopic>) -> [LiveTopic] {
        topics.sorted { $0.reading.dueAt < $1.reading.dueAt }
    }

    /// Renders the part, unless the stamp shows that nothing has changed.
    func show(stamp: Int? = nil, _ write: (inout ByteBuffer) -> Void) {
        guard json == nil || stamp == nil || stamp != self.stamp else { return }
        self.stamp = stamp
        var newJSON = ByteBuffer()
        write(&newJSON)
        guard newJSON != json else { return }
        json = newJSON
        version += 1
    }

    func show(stamp: Int? = nil, _ fields: @autoclosure () -> [String: JSONValue]) {
        show(stamp: stamp) { ViewModel.completed(part.name, .object(fields())).write(into: &$0) }
    }

    // MARK: Reading from Redis

    /// Starts the next read if it is due.
    /// - Parameters:
    ///   - wallMilliseconds: returns the time of this host's clock, as Unix time in milliseconds. The age of the
    ///     content counts from the start of the read.
    ///   - budget: the budget of Redis commands.
    ///   - maximum: the maximum number of commands that a read costs, reserved until the actual cost is known.
    ///   - read: a closure that starts the read and calls its argument once, when the read ends.
    func readIfDue(
        now: Instant, wallMilliseconds: @escaping () -> Int64, budget: ReadBudget, maximum: Int = 1,
        _ read: (@escaping ReadCompletion) -> Void
    ) {
        guard !reading.isInFlight, reading.dueAt <= now else { return }
        let expectedCost = reading.cost ?? maximum
        guard budget.reserve(now: now, expecting: expectedCost) else {
            // Meanwhile, the last content is shown with its age.
            reading.isPostponed = true
            return
        }
        let startedMilliseconds = wallMilliseconds()
        reading.isPostponed = false
        reading.isInFlight = true
        read { [self] result, lifetimeMilliseconds, commands in
            reading.isInFlight = false
            budget.correct(commands, expected: expectedCost)
            // The lifetime, like the age, counts from the start of the read.
            reading.dueAt = now.advanced(byMilliseconds: lifetimeMilliseconds)
            reading.readCount += 1
            switch result {
            case .success(let fields):
                reading.cost = commands
                reading.content = LiveReading.Content(
                    fields: fields, atMilliseconds: startedMilliseconds, seenMilliseconds: wallMilliseconds())
                reading.failure = nil
            case .failure(let error): reading.failure = error.message
            }
            let completions = readCompletions
            readCompletions = []
            for completion in completions { completion() }
        }
    }

    /// Cancels the postponed read.
    func cancelPostponedRead() { reading.isPostponed = false }

    /// Calls `completion` when the current read ends, or immediately if there is no read.
    func whenRead(_ completion: @escaping () -> Void) {
        if reading.isInFlight { readCompletions.append(completion) } else { completion() }
    }
}

/// The last read of a part from Redis, and the state of the next one.
struct LiveReading {
    struct Content {
        var fields: [String: JSONValue]
        /// The start of the read, by this host's clock.
        var atMilliseconds: Int64
        /// The arrival of the content, by this host's clock.
        var seenMilliseconds: Int64
    }

    fileprivate(set) var content: Content?
    /// The reason why the last read failed; `nil` if it succeeded.
    fileprivate(set) var failure: String?
    /// The number of completed reads, including failed ones.
    fileprivate(set) var readCount = 0
    fileprivate var isInFlight = false
    /// Whether a due read is waiting for the budget.
    fileprivate(set) var isPostponed = false
    fileprivate var dueAt = Instant(nanoseconds: .min)
    /// The number of commands that the last successful read cost; `nil` if none has succeeded.
    fileprivate var cost: Int?

    /// Whether any read has finished.
    var isDone: Bool { readCount > 0 }
    /// Whether there is content, or a reason for its absence.
    var isShowable: Bool { isDone || isPostponed }

    private static let postponedNotice =
        "this sidecar is serving too many console views to read it yet; try again in a few seconds"

    /// Returns the members to show, with the time of the read and the reason why they are not newer.
    /// - Parameter empty: the members to show before the first successful read.
    func fields(empty: [String: JSONValue]) -> [String: JSONValue] {
        var fields = content?.fields ?? empty
        fields["at_ms"] = content.map { .integer($0.atMilliseconds) } ?? .null
        fields["failure"] = failure.map { .string($0) } ?? (isPostponed && !isDone ? .string(Self.postponedNotice) : .null)
        return fields
    }
}
