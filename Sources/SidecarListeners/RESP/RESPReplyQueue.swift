internal import DequeModule
package import Interlock

/// The replies that a connection owes its client, in the order of the commands. Pure.
///
/// Each command has a tag, one higher than the tag of the command before it. A reply is kept until all earlier ones are
/// sent.
package struct RESPReplyQueue {
    /// The position of the reply to a command.
    package enum Position: Equatable {
        /// All earlier replies are sent.
        case first
        /// An earlier reply is pending.
        case later
        /// The command has been answered, or the connection is over.
        case answered
    }

    private enum Slot {
        case pending(PendingCall?)
        case ready(ReplyBuffer)
    }

    private var slots = Deque<Slot>()
    /// The tag of the oldest command whose reply is not sent.
    package private(set) var firstTag: UInt64 = 0
    /// The size of the replies that are kept, in bytes.
    package private(set) var waitingBytes = 0

    package var count: Int { slots.count }
    package var isEmpty: Bool { slots.isEmpty }

    /// - Returns: the tag of the command.
    package mutating func append() -> UInt64 {
        slots.append(.pending(nil))
        return firstTag + UInt64(slots.count - 1)
    }

    package func position(of tag: UInt64) -> Position {
        guard tag > firstTag else { return tag == firstTag ? .first : .answered }
        if case .pending = slots[Int(tag - firstTag)] { return .later }
        return .answered
    }

    /// Keeps the reply to a command that is not the first.
    package mutating func keep(_ reply: ReplyBuffer, for tag: UInt64) {
        slots[Int(tag - firstTag)] = .ready(reply)
        waitingBytes += reply.count
    }

    /// Removes the first reply, which is sent now.
    package mutating func removeFirst() {
        slots.removeFirst()
        firstTag += 1
    }

    /// Removes the first `count` replies, which are sent now.
    package mutating func removeFirst(_ count: Int) {
        slots.removeFirst(count)
        firstTag += UInt64(count)
    }

    /// Removes and returns the first reply if it was kept.
    package mutating func popReady() -> ReplyBuffer? {
        guard case .ready(let reply) = slots.first else { return nil }
        removeFirst()
        waitingBytes -= reply.count
        return reply
    }

    /// Records the call to cancel if the client leaves before the reply.
    package mutating func note(_ call: PendingCall, for tag: UInt64) {
        guard tag >= firstTag, case .pending = slots[Int(tag - firstTag)] else { return }
        slots[Int(tag - firstTag)] = .pending(call)
    }

    /// Removes the calls that were noted. The commands keep their positions.
    package mutating func removeCalls() -> [PendingCall] {
        slots.indices.compactMap { index in
            guard case .pending(let call?) = slots[index] else { return nil }
            slots[index] = .pending(nil)
            return call
        }
    }

    /// Ends the queue: every command counts as answered.
    package mutating func close() -> [PendingCall] {
        defer {
            removeFirst(slots.count)
            waitingBytes = 0
        }
        return removeCalls()
    }
}
