import NIOCore
import NIOPosix

/// Bytes to a door and back, for saying what no well-behaved client would.
enum RawConnection {
    /// Sends `bytes`, and reads until the other side closes or `enough` has come.
    static func exchange(port: Int, _ bytes: String, enough: String? = nil) async throws -> String {
        try await exchange(port: port, ByteBuffer(string: bytes)) { received in
            enough.map { received.contains($0) } ?? false
        }
    }

    static func exchange(
        port: Int, _ bytes: ByteBuffer, until isEnough: @Sendable (String) -> Bool
    ) async throws -> String {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(wrappingChannelSynchronously: channel)
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            // A door that is full has closed before: what it said counts.
            try? await outbound.write(bytes)
            var received = ""
            do {
                for try await part in inbound {
                    received += String(buffer: part)
                    if isEnough(received) { break }
                }
            } catch is IOError {
                // Closed with bytes of ours unread: what came before counts.
            }
            return received
        }
    }
}
