import Hiredis
import NIOCore

/// A client's connection to a sidecar's RESP door. Replies come in the order of their commands.
final class DoorConnection {
    /// Why there is no reply.
    enum Loss: Error {
        /// It never left.
        case notConnected
        /// It may have been carried out.
        case answerLost
    }

    private enum State {
        case connecting
        case open
        case closed
    }

    private let wire: Wire
    private var state = State.connecting
    private var reader = DoorReplyReader()
    private var waiting: [(Result<RedisReply, Loss>) -> Void] = []
    private var unsent: [ByteBuffer] = []

    var onPush: ([RedisReply]) -> Void = { _ in }
    /// It is gone, and not because this side closed it.
    var onLost: () -> Void = {}

    /// Connects; what is sent meanwhile leaves when the connection stands.
    init(to sidecar: SidecarHost, over path: Path, timeline: Timeline, speaksRESP3: Bool) {
        wire = Wire(timeline: timeline, path: path)
        wire.near.onBytes = { [weak self] in self?.receive($0) }
        wire.near.onEnd = { [weak self] in self?.lost() }
        if speaksRESP3 {
            send(["HELLO", "3"]) { _ in }
            send(["CLIENT", "LOSSES", "ON"]) { _ in }
        }
        timeline.plan(in: path.draw()) { [self] in
            guard state == .connecting else { return }
            guard sidecar.accept(wire) else {
                timeline.plan(in: path.draw()) { [self] in lost() }
                return
            }
            state = .open
            for bytes in unsent { wire.send(bytes, to: wire.far) }
            unsent = []
        }
    }

    var isClosed: Bool { state == .closed }

    /// Sends a command; `completion` is called once.
    func send(_ words: [String], completion: @escaping (Result<RedisReply, Loss>) -> Void) {
        guard state != .closed else { return completion(.failure(.notConnected)) }
        var bytes = ByteBuffer()
        bytes.writeString("*\(words.count)\r\n")
        for word in words { bytes.writeString("$\(word.utf8.count)\r\n\(word)\r\n") }
        waiting.append(completion)
        if state == .open { wire.send(bytes, to: wire.far) } else { unsent.append(bytes) }
    }

    /// Closes this end, whatever is under way.
    func close() {
        guard state != .closed else { return }
        let wasOpen = state == .open
        state = .closed
        if wasOpen { wire.close(to: wire.far) }
        fail(.answerLost)
    }

    private func receive(_ bytes: ByteBuffer) {
        guard state == .open else { return }
        reader.append(bytes.readableBytesView)
        do throws(DoorReplyReader.Unreadable) {
            while state == .open, let message = try reader.next() {
                switch message {
                case .push(let parts): onPush(parts)
                case .reply(let reply):
                    // Over RESP2 what a subscription brings looks like a reply.
                    if waiting.isEmpty { onPush(reply.array ?? []) } else { waiting.removeFirst()(.success(reply)) }
                }
            }
        } catch {
            lost()
        }
    }

    private func lost() {
        guard state != .closed else { return }
        let loss: Loss = state == .open ? .answerLost : .notConnected
        state = .closed
        fail(loss)
        onLost()
    }

    private func fail(_ loss: Loss) {
        let failed = waiting
        waiting = []
        for completion in failed { completion(.failure(loss)) }
    }
}
