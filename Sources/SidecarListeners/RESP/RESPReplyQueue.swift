internal import DequeModule
package import Interlock

/// The replies that a connection owes its client, in the order of the commands. Pure.
///
/// Each command has a tag that is one higher than the tag of the command before it. A reply is kept until all earlier
/// ones are sent.
package struct RESPReplyQueue {
    /// The position of the reply to a command.
    package enum Position: Equatable {
        /// All earlier replies are sent.
        case first
        /// An earlier reply is pending.
        case later
        /// The reply is sent or kept, or the connection has ended.
        case answered
    }

    private enum Entry {
        /// The reply is awaited. The call is cancelled if the client leaves.
        case pending(PendingCall?)
        /// The reply is kept until the earlier ones are sent.
        case ready(ReplyBuffer)
    }

    private var entries = Deque<Entry>()
    /// The tag of the oldest command whose reply is not sent.
    package private(set) var firstTag: UInt64 = 0
    /// The total length of the kept replies, in bytes.
    package private(set) var waitingBytes = 0

    package var count: Int { entries.count }
    package var isEmpty: Bool { entries.isEmpty }

    /// Adds a pending reply.
    /// - Returns: the tag of its command.
    package mutating func append() -> UInt64 {
        entries.append(.pending(nil))
        return firstTag + UInt64(entries.count - 1)
    }

    /// Returns the position of the reply to the command with this tag.
    package func position(of tag: UInt64) -> Position {
        guard tag > firstTag else { return tag == firstTag ? .first : .answered }
        if case .pending = entries[Int(tag - firstTag)] { return .later }
        return .answered
    }

    /// Holds the reply to a command that is not the first.
    package mutating func hold(_ reply: ReplyBuffer, for tag: UInt64) {
        entries[Int(tag - firstTag)] = .ready(reply)
        waitingBytes += reply.count
    }

    /// Removes the first reply, which is sent now.
    package mutating func removeFirst() {
        entries.removeFirst()
        firstTag += 1
    }

    /// Removes the first `count` replies, which are sent now.
    package mutating func removeFirst(_ count: Int) {
        entries.removeFirst(count)
        firstTag += UInt64(count)
    }

    /// Removes and returns the first reply if it was kept.
    package mutating func popReady() -> ReplyBuffer? {
        guard case .ready(let reply) = entries.first else { return nil }
        removeFirst()
        waitingBytes -= reply.count
        return reply
    }

    /// Records the call to cancel if the client leaves before the reply.
    package mutating func recordPendingCall(_ call: PendingCall, for tag: UInt64) {
        guard tag >= firstTag, case .pending = entries[Int(tag - firstTag)] else { return }
        entries[Int(tag - firstTag)] = .pending(call)
    }

    /// Removes and returns the recorded calls. The commands keep their positions.
    package mutating func removeCalls() -> [PendingCall] {
        entries.indices.compactMap { index in
            guard case .pending(let call?) = entries[index] else { return nil }
            entries[index] = .pending(nil)
            return call
        }
    }

    /// Empties the queue, so that every command counts as answered.
    /// - Returns: the calls to cancel.
    package mutating func close() -> [PendingCall] {
        defer {
            removeFirst(entries.count)
            waitingBytes = 0
        }
        return removeCalls()
    }
}
