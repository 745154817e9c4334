internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import RedisClient
internal import SidecarSettings

/// Lets a listener pause when it could not accept a connection: without file descriptors it would do nothing but try.
/// Clients that connect meanwhile wait.
///
/// NIO's own `AcceptBackoffHandler` holds back the next read, and the one that failed stays under way.
final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    private let length: TimeAmount
    private let whenExhausted: () -> Void
    private var resumption: Scheduled<Void>?

    /// - Parameter whenExhausted: called each time that no descriptor was left for a connection.
    init(_ length: TimeAmount = .seconds(1), whenExhausted: @escaping () -> Void) {
        self.length = length
        self.whenExhausted = whenExhausted
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? IOError else { return context.fireErrorCaught(error) }
        let channel = context.channel
        guard let options = channel.syncOptions else { return }
        // What ends a read that is under way is the change from reading by itself to not.
        try? options.setOption(.autoRead, value: true)
        try? options.setOption(.autoRead, value: false)
        if [EMFILE, ENFILE].contains(error.errnoCode) { whenExhausted() }
        guard resumption == nil else { return }
        resumption = channel.eventLoop.assumeIsolated().scheduleTask(in: length) { [self] in
            resumption = nil
            try? options.setOption(.autoRead, value: true)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        resumption?.cancel()
        context.fireChannelInactive()
    }
}

extension EventLoop {
    /// The uptime in nanoseconds, for decisions that know no clock.
    package var uptime: Int64 { Int64(clamping: now.uptimeNanoseconds) }

    /// Waits until a door's connections have closed, which they do by themselves once they are answered. What has not after 5 seconds is
    /// left to the process' end.
    func untilEmpty(_ isEmpty: @escaping @Sendable () -> Bool) async throws {
        let done = makePromise(of: Void.self)
        // Polling, for 5 seconds at most: it is only done on the way out.
        scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(20), notifying: nil) { task in
            guard isEmpty() else { return }
            task.cancel()
            done.succeed()
        }
        let timeout = scheduleTask(in: .seconds(5)) { done.succeed() }
        try await done.futureResult.get()
        timeout.cancel()
    }
}

extension SidecarError {
    /// A door cannot be opened.
    /// - Parameters:
    ///   - key: `listen.http`, and the address beside it: they are what a person changes.
    ///   - hint: what more to say of a refused permission.
    init(cannotListen key: String, at address: String, _ error: any Error, permissionHint hint: String? = nil) {
        let reason = NetworkReason(error)
        let isDenied = reason.errorCode == EACCES || reason.errorCode == EPERM
        self.init("\(key) \(address): \(reason)" + (isDenied ? hint.map { ": \($0)" } ?? "" : ""))
    }

    /// The door at `endpoint` cannot be opened.
    init(cannotListen key: String, at endpoint: SocketEndpoint, _ error: any Error) {
        self.init(
            cannotListen: key, at: "\(endpoint)", error,
            permissionHint: (1..<1024).contains(endpoint.port) ? "ports below 1024 are root's, or need CAP_NET_BIND_SERVICE" : nil
        )
    }
}
