internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import SidecarListeners

/// A part of a view, kept for all who look at it. Confined to the coordinator's event loop.
final class LiveTopic {
    let part: LivePart
    /// One JSON object on one line; `nil`: there is none yet.
    private(set) var json: ByteBuffer?
    /// Rises with every change of it.
    private(set) var version = 0
    /// When somebody looked at it last.
    var lookedAt: Instant
    /// What it was made of the last time; `nil`: it is made anew each time.
    private var stamp: Int?

    // What is read from Redis.
    fileprivate(set) var reading = LiveReading()
    private var waiting: [() -> Void] = []

    /// - Parameter now: what is read of Redis is due from here on.
    init(_ part: LivePart, now: Instant) {
        self.part = part
        lookedAt = now
        reading.dueAt = now
    }

    /// In the order in which they are to be read: the one that is due for longest comes first. So each has its turn, however few can be
    /// read at a time.
    static func inTurn(_ topics: some Collection<LiveTopic>) -> [LiveTopic] {
        topics.sorted { $0.reading.dueAt < $1.reading.dueAt }
    }

    /// Makes it anew, unless it would be made of the same.
    func show(stamp: Int? = nil, _ write: (inout ByteBuffer) -> Void) {
        guard json == nil || stamp == nil || stamp != self.stamp else { return }
        self.stamp = stamp
        var new = ByteBuffer()
        write(&new)
        guard new != json else { return }
        json = new
        version += 1
    }

    func show(stamp: Int? = nil, _ members: @autoclosure () -> [String: JSONValue]) {
        show(stamp: stamp) { ViewModel.completed(part.name, .object(members())).write(into: &$0) }
    }

    // MARK: Reading from Redis

    /// Begins to read it again when that is due.
    /// - Parameters:
    ///   - wall: what this host's clock shows. What was found is as old as its beginning: it may have changed since.
    ///   - budget: what may be asked of Redis.
    ///   - most: commands that it costs at most, which are kept for it while what it costs is not known.
    ///   - read: calls its argument once, with what was found, for how long that will do, in milliseconds, and how many commands it cost.
    func readIfDue(
        now: Instant, wall: @escaping () -> Int64, budget: ReadBudget, most: Int = 1,
        _ read: (@escaping (Result<[String: JSONValue], InterlockError>, _ lifetime: Int64, _ commands: Int) -> Void) -> Void
    ) {
        guard !reading.isUnderWay, reading.dueAt <= now else { return }
        let expected = reading.cost ?? most
        guard budget.begin(now: now, expecting: expected) else {
            // What was read before stays, and is as old as it says.
            reading.isPutOff = true
            return
        }
        let began = wall()
        reading.isPutOff = false
        reading.isUnderWay = true
        read { [self] result, lifetime, commands in
            reading.isUnderWay = false
            budget.settle(commands, expected: expected)
            // From its beginning: what takes long is not asked for all the time.
            reading.dueAt = now.advanced(byMilliseconds: lifetime)
            reading.count += 1
            switch result {
            case .success(let members):
                reading.cost = commands
                reading.content = LiveReading.Content(members: members, atMilliseconds: began, seenMilliseconds: wall())
                reading.failure = nil
            case .failure(let error): reading.failure = error.message
            }
            let waiting = waiting
            self.waiting = []
            for done in waiting { done() }
        }
    }

    /// Drops the postponed read.
    func giveUp() { reading.isPutOff = false }

    /// Calls `done` when what is being read is there; at once when nothing is.
    func whenRead(_ done: @escaping () -> Void) {
        if reading.isUnderWay { waiting.append(done) } else { done() }
    }
}

/// What was read from Redis for a part, and when.
struct LiveReading {
    struct Content {
        var members: [String: JSONValue]
        /// When it was begun to be read, by this host's clock.
        var atMilliseconds: Int64
        /// When it had come.
        var seenMilliseconds: Int64
    }

    fileprivate(set) var content: Content?
    /// Why it could not be read again; `nil`: it could.
    fileprivate(set) var failure: String?
    /// How often it was read.
    fileprivate(set) var count = 0
    fileprivate var isUnderWay = false
    /// Somebody has asked for it, and so much is read of Redis that it has to wait.
    fileprivate(set) var isPutOff = false
    fileprivate var dueAt = Instant(nanoseconds: .min)
    /// How many commands it took.
    fileprivate var cost: Int?

    /// It was read, or could not be.
    var isDone: Bool { count > 0 }
    /// There is something to show.
    var isToBeShown: Bool { isDone || isPutOff }

    private static let putOff = "so much is looked at through this sidecar that it is not read yet; look again in a few seconds"

    /// As it is shown: with its age, and with what hinders.
    /// - Parameter empty: what stands there before anything was read.
    func members(empty: [String: JSONValue]) -> [String: JSONValue] {
        var members = content?.members ?? empty
        members["at_ms"] = content.map { .integer($0.atMilliseconds) } ?? .null
        members["failure"] = failure.map { .text($0) } ?? (isPutOff && !isDone ? .text(Self.putOff) : .null)
        return members
    }
}
