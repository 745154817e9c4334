import InterlockCore
import NIOCore

/// A connection to an upstream that speaks HTTP/1.1.
final class UpstreamConnection {
    /// A step of an answer.
    private enum Step {
        /// Sends the response's head or a part of its body.
        case send(ByteBuffer)
        /// Sends bytes that do not start the final response: an informational response, a partial head or garbage.
        case hint(ByteBuffer)
        /// Waits this many milliseconds.
        case pause(Int64)
        /// Completes the response.
        case end(closes: Bool)
        case close
    }

    private enum State {
        case reading
        /// Responds to a request whose body may still be arriving.
        case answering
        /// Sends nothing more; the connection closes after a timeout.
        case silent
        case closed
    }

    private let wire: Wire
    private let host: UpstreamHost
    private let onEnd: () -> Void
    private var random: SeededRandom
    private var reader = UpstreamRequestReader()
    private var state = State.reading
    private var request: (arrival: UpstreamLedger.Arrival, manner: UpstreamBehavior)?
    /// Whether the current request was received in full.
    private var isRequestWhole = true
    private var requests = 0
    /// Whether extra bytes followed the last response. The sidecar must then not reuse the connection.
    private var isSpoiled = false

    private init(_ wire: Wire, of host: UpstreamHost, random: SeededRandom, onEnd: @escaping () -> Void) {
        self.wire = wire
        self.host = host
        self.random = random
        self.onEnd = onEnd
    }

    /// Serves the far end of a wire, which keeps the connection alive.
    static func serve(_ wire: Wire, of host: UpstreamHost, random: SeededRandom, onEnd: @escaping () -> Void) {
        let connection = UpstreamConnection(wire, of: host, random: random, onEnd: onEnd)
        wire.far.onBytes = { connection.receive($0) }
        wire.far.onEnd = { connection.ended() }
    }

    // MARK: Reading

    private func receive(_ bytes: ByteBuffer) {
        guard state != .closed else { return }
        reader.append(bytes.readableBytesView)
        do throws(UpstreamRequestReader.Unreadable) {
            while state != .closed, mayRead(), let event = try reader.next() {
                switch event {
                case .head(let head): begin(head)
                case .end(let body): finish(body)
                }
            }
        } catch {
            host.find("call \(request?.arrival.head.number ?? 0) or the next one on its connection is malformed: \(error.reason)")
            close()
        }
    }

    /// Returns whether the next part of a request may be read. Reports a request that arrives before the last answer is
    /// complete.
    private func mayRead() -> Bool {
        guard isRequestWhole, state != .reading, reader.hasBytes else { return true }
        host.find("a request follows call \(request?.arrival.head.number ?? 0) before its answer is complete")
        close()
        return false
    }

    private func begin(_ head: UpstreamRequestHead) {
        if isSpoiled { host.find("call \(head.number) is on a connection with bytes after its last answer") }
        requests += 1
        let arrival = host.begin(head, over: wire, isReused: requests > 1)
        let manner = host.drawManner()
        request = (arrival, manner)
        isRequestWhole = false
        switch manner.mishap {
        case .closesUnread: close()
        case .answersEarly: answer(arrival, manner)
        default: break
        }
    }

    private func finish(_ body: ByteBuffer) {
        isRequestWhole = true
        guard let (arrival, manner) = request else { return }
        host.finish(arrival, body: body)
        if state == .reading, !arrival.hasSent { answer(arrival, manner) }
    }

    // MARK: Answering

    private func answer(_ arrival: UpstreamLedger.Arrival, _ manner: UpstreamBehavior) {
        arrival.isExecuted = true
        switch manner.mishap {
        case .closesUnanswered: run([.pause(manner.delay), .close])
        case .isSilent: beSilent()
        case .sendsGarbage:
            let garbage = ByteBuffer(string: "HTTP/1.1 abc\r\n\(arrival.head.number)\r\n\r\n")
            run([.pause(manner.delay), .hint(garbage)])
        default: run(steps(arrival, manner))
        }
    }

    private func beSilent() {
        state = .silent
        host.timeline.plan(in: .milliseconds(UpstreamBehavior.longest)) { [weak self] in self?.close() }
    }

    private func run(_ steps: [Step]) {
        state = .answering
        advance(steps[...])
    }

    private func advance(_ steps: ArraySlice<Step>) {
        var rest = steps
        while state == .answering, let step = rest.popFirst() {
            switch step {
            case .pause(0): break
            case .pause(let milliseconds):
                return host.timeline.plan(in: .milliseconds(milliseconds)) { [self] in advance(rest) }
            case .send(let bytes): send(bytes)
            case .hint(let bytes):
                request?.arrival.hasSent = true
                wire.send(bytes, to: wire.near)
            case .end(let closes): endAnswer(closes: closes)
            case .close: close()
            }
        }
        // A response without an end step stays incomplete.
        if state == .answering { beSilent() }
    }

    private func send(_ bytes: ByteBuffer) {
        if let (arrival, manner) = request {
            arrival.hasSent = true
            arrival.status = manner.status
            arrival.hasRetryAfter = manner.retryAfter != nil
        }
        wire.send(bytes, to: wire.near, isIndivisible: isSpoiled)
    }

    private func endAnswer(closes: Bool) {
        host.finishAnswer()
        guard !closes else { return close() }
        state = .reading
        guard random.happens(0.05) else { return }
        let answered = requests
        host.timeline.plan(in: .milliseconds(Int64.random(in: 0...1500, using: &random))) { [weak self] in
            guard let self, state == .reading, requests == answered, isRequestWhole else { return }
            close()
        }
    }

    private func close() {
        guard state != .closed else { return }
        request?.arrival.endedAt = host.timeline.now
        ended()
        wire.close(to: wire.near)
    }

    private func ended() {
        guard state != .closed else { return }
        state = .closed
        // The closures retain the connection.
        wire.far.onBytes = { _ in }
        wire.far.onEnd = {}
        onEnd()
    }

    // MARK: Answers

    private func steps(_ arrival: UpstreamLedger.Arrival, _ manner: UpstreamBehavior) -> [Step] {
        var steps = [Step.pause(manner.delay)]
        for status in manner.informational {
            steps.append(.hint(ByteBuffer(string: "HTTP/1.1 \(status) Hint\r\nLink: </\(arrival.head.number)>\r\n\r\n")))
        }
        let body = manner.hasBody(for: arrival.head.method) ? NumberedBody.make(arrival.head.number, about: manner.size) : nil
        let head = head(of: arrival, manner, bodySize: body?.readableBytes)
        if case .closesInHead = manner.mishap {
            let part = head.getSlice(at: 0, length: Int.random(in: 1..<head.readableBytes, using: &random)) ?? head
            return steps + [.hint(part), .close]
        }
        var writes = [head]
        if let body { writes += framed(body, manner) }
        if manner.parts == 1, !breaksOff(manner) {
            writes = [writes.reduce(into: ByteBuffer()) { whole, write in _ = whole.writeImmutableBuffer(write) }]
        }
        return steps + finish(writes, arrival, manner, hasBody: body != nil)
    }

    /// The writes, the pauses between them, and the way the response ends.
    private func finish(
        _ writes: [ByteBuffer], _ arrival: UpstreamLedger.Arrival, _ manner: UpstreamBehavior, hasBody: Bool
    ) -> [Step] {
        var writes = writes
        var end = [Step.end(closes: hasBody && manner.framing == .untilClose)]
        switch manner.mishap {
        case .closesInBody where hasBody && manner.framing != .untilClose:
            writes = cutShort(writes)
            end = [.close]
        case .sendsTooLittle(let closes) where hasBody && manner.framing == .length: end = closes ? [.close] : []
        case .closesAfter, .answersEarly(closes: true): end = [.end(closes: true)]
        case .answersTwice where !hasBody || manner.framing != .untilClose:
            isSpoiled = true
            writes[writes.count - 1].writeImmutableBuffer(unwanted(arrival.head.number + 1_000_000))
        default: break
        }
        let steps = writes.flatMap { [Step.send($0), .pause(manner.pause)] }
        return Array(steps.dropLast()) + end
    }

    /// Whether the connection closes within the body. The head is then a separate write.
    private func breaksOff(_ manner: UpstreamBehavior) -> Bool {
        if case .closesInBody = manner.mishap { true } else { false }
    }

    /// Cuts the last write short.
    private func cutShort(_ writes: [ByteBuffer]) -> [ByteBuffer] {
        var writes = writes
        guard let last = writes.popLast(), last.readableBytes > 1 else { return writes }
        let length = Int.random(in: 1..<last.readableBytes, using: &random)
        return writes + (last.getSlice(at: last.readerIndex, length: length).map { [$0] } ?? [])
    }

    /// Returns a second response that answers no request.
    private func unwanted(_ number: Int) -> ByteBuffer {
        ByteBuffer(string: "HTTP/1.1 200 OK\r\nX-Call: \(number)\r\nX-Status: 200\r\nContent-Length: 8\r\n\r\nunwanted")
    }

    private func head(of arrival: UpstreamLedger.Arrival, _ manner: UpstreamBehavior, bodySize: Int?) -> ByteBuffer {
        var text = "HTTP/1.1 \(manner.status) Status\r\nX-Call: \(arrival.head.number)\r\nX-Status: \(manner.status)\r\n"
        if let retryAfter = manner.retryAfter { text += "Retry-After: \(retryAfter)\r\n" }
        if let bodySize {
            var size = bodySize
            if case .sendsTooLittle = manner.mishap, manner.framing == .length { size += Int.random(in: 1...100, using: &random) }
            // A client cannot detect truncation if the end of the connection delimits the body.
            if manner.framing != .untilClose { text += "X-Size: \(size)\r\n" }
            switch manner.framing {
            case .length: text += "Content-Length: \(size)\r\n"
            case .chunked: text += "Transfer-Encoding: chunked\r\n"
            case .untilClose: text += "Connection: close\r\n"
            }
        } else if arrival.head.method == "HEAD" {
            text += "Content-Length: \(manner.size)\r\n"
        }
        return ByteBuffer(string: text + "\r\n")
    }

    private func framed(_ body: ByteBuffer, _ manner: UpstreamBehavior) -> [ByteBuffer] {
        let parts = body.parts(manner.parts)
        guard manner.framing == .chunked else { return parts }
        let trailers = manner.hasTrailers ? "X-Trailer: yes\r\n" : ""
        return parts.enumerated().map { index, part in
            var chunk = ByteBuffer(string: String(part.readableBytes, radix: 16) + "\r\n")
            chunk.writeImmutableBuffer(part)
            chunk.writeString("\r\n")
            if index == parts.count - 1 { chunk.writeString("0\r\n\(trailers)\r\n") }
            return chunk
        }
    }
}
