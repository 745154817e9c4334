import NIOCore
import RedisClient

/// A client's connection to a sidecar's HTTP API. It sends each command as a request, and converts the response to the
/// reply of the RESP API.
final class HTTPCommandConnection: ClientConnection {
    private let connection: HTTPWireConnection
    /// Receives descriptions of responses that the API does not allow.
    private let complain: (String) -> Void
    /// The requests of the write being assembled.
    private var batch: ByteBuffer?
    /// The number of times that all calls were dropped.
    private var generation = 0

    /// Has no effect, because HTTP has no push messages.
    var onPush: ([RedisReply]) -> Void = { _ in }
    var onLost: () -> Void = {}

    init(to sidecar: SidecarHost, over path: Path, timeline: WorldTimeline, complain: @escaping (String) -> Void) {
        connection = HTTPWireConnection(to: sidecar, over: path, timeline: timeline)
        self.complain = complain
        connection.onLost = { [weak self] in self?.onLost() }
    }

    var isOpen: Bool { connection.isOpen }
    var isClosed: Bool { connection.isClosed }

    func send(_ arguments: [String], completion: @escaping (Result<RedisReply, ClientLoss>) -> Void) {
        let request = HTTPCommand(arguments)
        let bytes = request.bytes
        let generation = generation
        let isSingle = batch?.writeImmutableBuffer(bytes) == nil
        connection.send(isSingle ? bytes : ByteBuffer()) { [weak self] result in
            guard let self, self.generation == generation else { return }
            completion(reply(request, result))
        }
    }

    func sendTogether(_ body: () -> Void) {
        batch = ByteBuffer()
        body()
        guard let bytes = batch else { return }
        batch = nil
        connection.write(bytes)
    }

    func giveUpOnReplies() { generation += 1 }

    func close() { connection.close() }

    private func reply(
        _ request: HTTPCommand, _ result: Result<HTTPWireResponse, HTTPWireConnection.Loss>
    ) -> Result<RedisReply, ClientLoss> {
        switch result {
        case .success(let response):
            do throws(UndocumentedResponse) {
                return .success(try request.reply(to: response))
            } catch {
                let body = String(decoding: response.body, as: UTF8.self)
                complain("\(request.name): \(error.reason), in answer \(response.status) \(body)")
                return .success(.error(RedisError(.server(ServerCondition(rawValue: "ERR")), "ERR \(error.reason)")))
            }
        case .failure(.notConnected): return .failure(.notConnected)
        case .failure(.responseLost): return .failure(.responseLost)
        case .failure(.unreadable(let reason)):
            complain("\(request.name): \(reason)")
            return .failure(.responseLost)
        }
    }
}
