internal import Interlock
internal import InterlockCore
internal import NIOCore

/// A part of a view, kept for all who look at it. Confined to the coordinator's event loop.
final class LiveTopic {
    let part: LivePart
    /// One JSON object on one line; `nil`: there is none yet.
    private(set) var json: ByteBuffer?
    /// Rises with every change of it.
    private(set) var version = 0
    /// When somebody looked at it last.
    var lookedAt = Instant(nanoseconds: .min)
    /// To make it takes so long that once a second has to do.
    var isCostly = false
    /// What it was made of the last time; `nil`: it is made anew each time.
    private var stamp: Int?

    // What is read from Redis.
    fileprivate(set) var reading = LiveReading()
    private var waiting: [() -> Void] = []

    init(_ part: LivePart) {
        self.part = part
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
        show(stamp: stamp) { JSONValue.object(members()).write(into: &$0) }
    }

    // MARK: Reading from Redis

    /// Begins to read it again when that is due.
    /// - Parameters:
    ///   - wall: what this host's clock shows now. What was found is as old as that: it may have changed since.
    ///   - read: calls its argument once, with what was found and for how long that will do, in milliseconds.
    func readIfDue(
        now: Instant, wall: Int64, _ read: (@escaping (Result<[String: JSONValue], InterlockError>, Int64) -> Void) -> Void
    ) {
        guard !reading.isUnderWay, reading.dueAt <= now else { return }
        reading.isUnderWay = true
        read { [self] result, lifetime in
            reading.isUnderWay = false
            // From its beginning: what takes long is not asked for all the time.
            reading.dueAt = now.advanced(byMilliseconds: lifetime)
            reading.count += 1
            switch result {
            case .success(let members):
                reading.content = LiveReading.Content(members: members, atMilliseconds: wall)
                reading.failure = nil
            case .failure(let error): reading.failure = error.message
            }
            let waiting = waiting
            self.waiting = []
            for done in waiting { done() }
        }
    }

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
    }

    fileprivate(set) var content: Content?
    /// Why it could not be read again; `nil`: it could.
    fileprivate(set) var failure: String?
    /// How often it was read.
    fileprivate(set) var count = 0
    fileprivate var isUnderWay = false
    fileprivate var dueAt = Instant(nanoseconds: .min)

    /// It was read, or could not be.
    var isDone: Bool { count > 0 }

    /// As it is shown: with its age, and with what hinders.
    /// - Parameter empty: what stands there before anything was read.
    func members(empty: [String: JSONValue]) -> [String: JSONValue] {
        var members = content?.members ?? empty
        members["at_ms"] = content.map { .integer($0.atMilliseconds) } ?? .null
        members["failure"] = failure.map { .text($0) } ?? .null
        return members
    }
}
