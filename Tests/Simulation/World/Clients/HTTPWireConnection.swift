import NIOCore

/// A client's HTTP/1.1 connection to a sidecar, for one request at a time or several pipelined ones. Responses arrive
/// in the order of the requests.
final class HTTPWireConnection {
    /// The reason why there is no complete response.
    enum Loss: Error {
        /// The request was never sent.
        case notConnected
        /// The request may have been executed. The value is the part of its response that arrived.
        case responseLost(HTTPWireResponse?)
        /// The bytes are not a valid HTTP response, or match no request.
        case unreadable(String)
    }

    private enum State {
        case connecting
        case open
        case closed
    }

    private let wire: Wire
    private var state = State.connecting
    private var reader = HTTPResponseReader()
    private var pending: [(isHead: Bool, completion: (Result<HTTPWireResponse, Loss>) -> Void)] = []
    private var unsent: [ByteBuffer] = []
    /// The requests of the write being assembled.
    private var batch: ByteBuffer?
    /// Receives the status of each informational response to the oldest request.
    var onInformational: (Int) -> Void = { _ in }
    /// Runs when bytes arrive that belong to no response.
    var onStrayBytes: () -> Void = {}
    /// Runs when the connection is lost, but not when this side closes it.
    var onLost: () -> Void = {}

    /// Starts to connect. Requests sent before the connection is open are queued.
    init(to sidecar: SidecarHost, over path: Path, timeline: WorldTimeline) {
        wire = Wire(timeline: timeline, path: path)
        wire.near.onBytes = { [weak self] in self?.receive($0) }
        wire.near.onEnd = { [weak self] in self?.peerClosed() }
        timeline.schedule(in: path.drawDelay()) { [self] in
            guard state == .connecting else { return }
            guard sidecar.accept(wire, at: .http) else {
                timeline.schedule(in: path.drawDelay()) { [self] in peerClosed() }
                return
            }
            state = .open
            for bytes in unsent { wire.send(bytes, to: wire.far) }
            unsent = []
        }
    }

    var isOpen: Bool { state == .open }
    var isClosed: Bool { state == .closed }
    /// Whether every request has its response.
    var isIdle: Bool { pending.isEmpty }

    /// Sends a request. `bytes` is the complete request or only its head. Calls `completion` once.
    func send(_ bytes: ByteBuffer, isHead: Bool = false, completion: @escaping (Result<HTTPWireResponse, Loss>) -> Void) {
        guard state != .closed else { return completion(.failure(.notConnected)) }
        pending.append((isHead, completion))
        if pending.count == 1 { reader.begin(isHead: isHead) }
        write(bytes)
    }

    /// Combines everything that `body` sends into one write.
    func sendTogether(_ body: () -> Void) {
        batch = ByteBuffer()
        body()
        guard let bytes = batch else { return }
        batch = nil
        write(bytes)
    }

    /// Sends another part of the last request.
    func write(_ bytes: ByteBuffer) {
        guard batch?.writeImmutableBuffer(bytes) == nil else { return }
        switch state {
        case .connecting: unsent.append(bytes)
        case .open: wire.send(bytes, to: wire.far)
        case .closed: break
        }
    }

    /// Closes this end, even if requests are pending.
    func close() {
        guard state != .closed else { return }
        let wasOpen = state == .open
        state = .closed
        if wasOpen { wire.close(to: wire.far) }
        fail { .responseLost($0) }
    }

    private func receive(_ bytes: ByteBuffer) {
        guard state == .open else { return }
        reader.append(bytes.readableBytesView)
        do throws(HTTPResponseReader.ParseError) {
            while state == .open {
                guard !pending.isEmpty || !reader.hasBytes else {
                    throw HTTPResponseReader.ParseError(reason: "bytes after the end of the last answer")
                }
                let response = try reader.next()
                for status in reader.takeInformational() { onInformational(status) }
                guard let response, state == .open else { return }
                responseCompleted(response)
            }
        } catch {
            state = .closed
            wire.close(to: wire.far)
            if pending.isEmpty { onStrayBytes() }
            fail { _ in .unreadable(error.reason) }
            onLost()
        }
    }

    private func responseCompleted(_ response: HTTPWireResponse) {
        guard !pending.isEmpty else { return }
        let completion = pending.removeFirst().completion
        if let next = pending.first { reader.begin(isHead: next.isHead) }
        let isLast = state == .open && response.endsConnection
        if isLast {
            state = .closed
            wire.close(to: wire.far)
        }
        completion(.success(response))
        guard isLast else { return }
        fail { .responseLost($0) }
        onLost()
    }

    private func peerClosed() {
        guard state != .closed else { return }
        let wasOpen = state == .open
        if wasOpen, let response = reader.end() { responseCompleted(response) }
        guard state != .closed else { return }
        state = .closed
        fail { wasOpen ? .responseLost($0) : .notConnected }
        onLost()
    }

    private func fail(_ loss: (HTTPWireResponse?) -> Loss) {
        let failedRequests = pending
        pending = []
        let part = reader.part
        for (index, request) in failedRequests.enumerated() {
            request.completion(.failure(loss(index == 0 ? part : nil)))
        }
    }
}

/// A response as the client received it.
struct HTTPWireResponse {
    var status = 0
    /// The header fields, with names in lower case.
    var fields: [(name: String, value: String)] = []
    var body: [UInt8] = []
    /// The statuses of the informational responses that preceded it.
    var informational: [Int] = []

    /// Whether the sidecar closes the connection after this response.
    var endsConnection: Bool { self["connection"]?.lowercased().contains("close") ?? false }

    /// Returns the first value of a field. `name` is in lower case.
    subscript(name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// An incremental, strict parser of HTTP/1.1 responses.
struct HTTPResponseReader {
    struct ParseError: Error {
        var reason: String
    }

    private enum Stage {
        case head
        case counted(remaining: Int)
        case chunkSize
        case chunk(remaining: Int)
        case chunkEnd
        case trailers
        case untilClose
    }

    private var bytes: [UInt8] = []
    /// The index of the first byte that is not consumed.
    private var start = 0
    private var stage = Stage.head
    private var response = HTTPWireResponse()
    private var isHead = false
    private var newInformational: [Int] = []

    /// Whether some bytes have arrived but are not consumed.
    var hasBytes: Bool { start < bytes.count }
    /// The part of the current response that has arrived; `nil` before its head.
    var part: HTTPWireResponse? { response.status == 0 ? nil : response }

    mutating func append(_ newBytes: some Sequence<UInt8>) { bytes.append(contentsOf: newBytes) }

    /// Sets the method of the request that the next response belongs to.
    mutating func begin(isHead: Bool) { self.isHead = isHead }

    /// Returns the statuses of the informational responses since the last call.
    mutating func takeInformational() -> [Int] {
        defer { newInformational = [] }
        return newInformational
    }

    /// Handles the end of the connection. Returns the response that it completes; `nil` if there is none.
    mutating func end() -> HTTPWireResponse? {
        guard case .untilClose = stage else { return nil }
        return finish()
    }

    private mutating func finish() -> HTTPWireResponse {
        defer {
            response = HTTPWireResponse()
            stage = .head
        }
        return response
    }

    private mutating func line() -> String? {
        guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let line = bytes[start..<(end > start && bytes[end - 1] == UInt8(ascii: "\r") ? end - 1 : end)]
        start = end + 1
        return String(decoding: line, as: UTF8.self)
    }

    private mutating func consume(_ maximum: Int) -> Int {
        let count = min(maximum, bytes.count - start)
        response.body.append(contentsOf: bytes[start..<(start + count)])
        start += count
        return count
    }

    /// Returns the next complete response; `nil` if more bytes are needed.
    mutating func next() throws(ParseError) -> HTTPWireResponse? {
        while true {
            switch stage {
            case .head:
                guard let response = try head() else { return nil }
                if let response { return response }
            case .counted(let remaining):
                let remainingCount = remaining - consume(remaining)
                stage = .counted(remaining: remainingCount)
                guard remainingCount == 0 else { return nil }
                return finish()
            case .chunkSize:
                guard let line = line() else { return nil }
                guard let size = Int(line, radix: 16) else {
                    throw ParseError(reason: "a chunk begins with \(line.debugDescription)")
                }
                stage = size == 0 ? .trailers : .chunk(remaining: size)
            case .chunk(let remaining):
                let remainingCount = remaining - consume(remaining)
                stage = remainingCount == 0 ? .chunkEnd : .chunk(remaining: remainingCount)
                if remainingCount > 0 { return nil }
            case .chunkEnd:
                guard let line = line() else { return nil }
                guard line.isEmpty else { throw ParseError(reason: "a chunk ends with \(line.debugDescription)") }
                stage = .chunkSize
            case .trailers:
                guard let line = line() else { return nil }
                if line.isEmpty { return finish() }
                response.fields.append(try Self.field(line))
            case .untilClose:
                _ = consume(.max)
                return nil
            }
        }
    }

    private static func field(_ line: String) throws(ParseError) -> (name: String, value: String) {
        guard let colon = line.firstIndex(of: ":") else { throw ParseError(reason: "no field: \(line.debugDescription)") }
        let value = line[line.index(after: colon)...].drop { $0 == " " }
        return (line[..<colon].lowercased(), String(value))
    }

    /// Reads a head once it is complete.
    /// - Returns: the response if it has no body; `.some(nil)` if a body or another head follows; `nil` if more bytes
    ///   are needed.
    private mutating func head() throws(ParseError) -> HTTPWireResponse?? {
        let end: [UInt8] = Array("\r\n\r\n".utf8)
        guard bytes.count - start >= 4,
            (start...(bytes.count - 4)).contains(where: { bytes[$0..<($0 + 4)].elementsEqual(end) })
        else { return nil }
        let words = (line() ?? "").split(separator: " ")
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else {
            throw ParseError(reason: "no status line: \(words.joined(separator: " ").debugDescription)")
        }
        var fields: [(name: String, value: String)] = []
        while let line = line(), !line.isEmpty { fields.append(try Self.field(line)) }
        if start > 4096 {
            bytes.removeFirst(start)
            start = 0
        }
        if (100..<200).contains(status), status != 101 {
            response.informational.append(status)
            newInformational.append(status)
            return .some(nil)
        }
        response.status = status
        response.fields = fields
        if isHead || status == 204 || status == 304 || status == 101 { return finish() }
        if response["transfer-encoding"] == "chunked" {
            stage = .chunkSize
        } else if let length = response["content-length"] {
            guard let count = Int(length) else { throw ParseError(reason: "Content-Length is \(length)") }
            stage = .counted(remaining: count)
        } else {
            stage = .untilClose
        }
        return .some(nil)
    }
}
