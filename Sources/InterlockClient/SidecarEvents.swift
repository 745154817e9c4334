internal import FoundationEssentials
internal import DequeModule
internal import Logging
internal import NIOConcurrencyHelpers
internal import NIOCore

/// Something that happened in the fleet: a JSON object, see the documentation of events.
public struct SidecarEvent: Hashable, Sendable {
    /// One line of JSON.
    public var json: [UInt8]

    /// The same as text.
    public var text: String { String(decoding: json, as: UTF8.self) }

    /// Reads the fields that a program wants; every event has `type`, `origin` and `at_ms`.
    public func decode<Fields: Decodable>(_ type: Fields.Type = Fields.self) throws -> Fields {
        try JSONDecoder().decode(type, from: Data(json))
    }
}

/// The events of a fleet, as a sidecar passes them on. They are hints: whoever must know reads the state after each `following`.
///
/// For one reader. The subscription ends when the reader's task is cancelled or the last copy of this value is dropped.
public struct SidecarEvents: AsyncSequence, Sendable {
    /// What a reader of events is told.
    public enum Element: Hashable, Sendable {
        /// From here on nothing is missed while the connection lasts.
        case following
        /// Something happened.
        case event(SidecarEvent)
        /// The connection is lost: what happens until the next `following` is missed. It is made again.
        case interrupted(InterlockError)
        /// So many were dropped because the reader was slower than they came.
        case missed(Int)
    }

    /// A reader of the events.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let buffer: EventBuffer
        // The subscription lives as long as it is read.
        let subscription: EventSubscriber

        /// The next element, as soon as there is one; `nil`: the subscription has ended.
        public mutating func next() async -> Element? { await buffer.next() }
    }

    let buffer: EventBuffer
    let subscription: EventSubscriber

    /// The reader; there is one.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer, subscription: subscription) }
}

extension SidecarClient {
    /// Follows the fleet's events, over a connection of their own that is made again when it is lost.
    /// - Parameter channel: what to subscribe to; `nil`: the sidecar is asked.
    /// - Throws: `InterlockError` when the sidecar cannot be reached or refuses the subscription.
    public func events(channel: String? = nil) async throws -> SidecarEvents {
        var name = channel
        if name == nil { name = try await status().eventChannel }
        let buffer = EventBuffer(capacity: configuration.eventBufferSize)
        let subscription = EventSubscriber(
            configuration, channel: name ?? Self.usualEventChannel, buffer: buffer, eventLoop: eventLoop)
        try await subscription.start()
        return SidecarEvents(buffer: buffer, subscription: subscription)
    }

    /// Of sidecars whose configuration has no `redis.prefix`.
    private static var usualEventChannel: String { "interlock:events" }
}

/// Ends a subscription when it is dropped.
final class EventSubscriber: Sendable {
    private let eventLoop: any EventLoop
    private let subscription: NIOLoopBound<SidecarSubscription>
    private let buffer: EventBuffer

    /// Called on the event loop.
    init(_ configuration: SidecarClientConfiguration, channel: String, buffer: EventBuffer, eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
        self.buffer = buffer
        let subscription = SidecarSubscription(
            configuration, channel: channel, eventLoop: eventLoop, logger: Logger(label: "interlock.client"))
        self.subscription = NIOLoopBound(subscription, eventLoop: eventLoop)
    }

    deinit {
        buffer.finish()
        eventLoop.execute { [subscription] in subscription.value.close() }
    }

    /// Returns when the first subscription stands.
    func start() async throws {
        try await eventLoop.flatSubmit { [eventLoop, subscription, buffer] in
            let promise = eventLoop.makePromise(of: Void.self)
            let subscription = subscription.value
            var isInterrupted = false
            var isStarted = false
            subscription.onFollowing = {
                isInterrupted = false
                buffer.push(.following)
                if !isStarted { promise.succeed() }
                isStarted = true
            }
            subscription.onEvent = { buffer.push(.event(SidecarEvent(json: $0))) }
            subscription.onDown = { error in
                guard isStarted else {
                    isStarted = true
                    return promise.fail(error)
                }
                // Each attempt to connect again ends in one more of these.
                guard !isInterrupted else { return }
                isInterrupted = true
                buffer.push(.interrupted(error))
            }
            subscription.start()
            return promise.futureResult
        }.get()
    }
}

/// What waits for the reader: at most `capacity` elements, of which the oldest give way to the new. One reader.
final class EventBuffer: Sendable {
    private struct State {
        var elements = Deque<SidecarEvents.Element>()
        var missed = 0
        var reader: CheckedContinuation<SidecarEvents.Element?, Never>?
        var isFinished = false
    }

    private let capacity: Int
    private let state = NIOLockedValueBox(State())

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    func push(_ element: SidecarEvents.Element) {
        let reader = state.withLockedValue { state -> CheckedContinuation<SidecarEvents.Element?, Never>? in
            guard !state.isFinished else { return nil }
            if let reader = state.reader {
                state.reader = nil
                return reader
            }
            state.elements.append(element)
            if state.elements.count > capacity {
                state.elements.removeFirst()
                state.missed += 1
            }
            return nil
        }
        reader?.resume(returning: element)
    }

    func finish() {
        let reader = state.withLockedValue { state in
            state.isFinished = true
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume(returning: nil)
    }

    /// The oldest element, as soon as there is one; `nil`: it is finished. Cancelling the task finishes it.
    func next() async -> SidecarEvents.Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { reader in
                let element: SidecarEvents.Element?? = state.withLockedValue { state in
                    if state.missed > 0 {
                        defer { state.missed = 0 }
                        return .missed(state.missed)
                    }
                    if let element = state.elements.popFirst() { return element }
                    if state.isFinished { return .some(nil) }
                    state.reader = reader
                    return nil
                }
                if let element { reader.resume(returning: element) }
            }
        } onCancel: {
            finish()
        }
    }
}
