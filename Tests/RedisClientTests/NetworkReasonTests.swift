import Glibc
import InterlockProcesses
import NIOCore
import NIOSSL
import RedisClient
import Testing

@Suite("Reasons for a missing connection", .timeLimit(.minutes(1)))
struct NetworkReasonTests {
    private func message(connectingTo url: String) async throws -> String {
        var configuration = try RedisConfiguration(url: url)
        configuration.connectTimeout = .seconds(10)
        let error = try await #require(throws: RedisError.self) { try await withClient(configuration) { _ in } }
        #expect(error.code == .connectionFailed)
        return error.message
    }

    @Test("The error distinguishes a refused connection, an unknown host, a missing socket and a path that is too long")
    func plainWords() async throws {
        let port = try await LocalPort.unused()
        #expect(
            try await message(connectingTo: "redis://user:hunter2@127.0.0.1:\(port)/3")
                == "redis://127.0.0.1:\(port)/3 refuses connections")
        #expect(
            try await message(connectingTo: "redis://nowhere.invalid:6379")
                == "cannot connect to redis://nowhere.invalid:6379/0: cannot resolve nowhere.invalid")
        #expect(
            try await message(connectingTo: "unix:///nowhere/redis.sock")
                == "cannot connect to unix:///nowhere/redis.sock: no such file or directory")
        let long = "unix:///" + String(repeating: "x", count: 120)
        #expect(try await message(connectingTo: long) == "cannot connect to \(long): the path is too long for a Unix socket")
    }

    @Test("The system's error codes are explained in plain words")
    func systemCodes() {
        #expect("\(NetworkReason(IOError(errnoCode: EACCES, reason: "bind(descriptor:ptr:bytes:)")))" == "permission denied")
        #expect("\(NetworkReason(IOError(errnoCode: EADDRINUSE, reason: "bind(descriptor:ptr:bytes:)")))" == "the port is in use")
        #expect("\(NetworkReason(IOError(errnoCode: EHOSTUNREACH, reason: "connect(x:)")))" == "No route to host")
        #expect("\(NetworkReason(ChannelError.connectTimeout(.seconds(1))))" == "the connection timed out")
        #expect("\(NetworkReason(ChannelError.eof))" == "the connection was closed")
    }

    @Test("A failed TLS handshake is explained without naming the library that failed")
    func handshakes() {
        #expect(
            "\(NetworkReason(NIOSSLError.handshakeFailed(.sslError([.eofDuringHandshake]))))"
                == "the TLS handshake failed: the connection was closed during the handshake")
        #expect("\(NetworkReason(NIOSSLExtraError.failedToValidateHostname))" == "its certificate is for a different host name")
    }
}
