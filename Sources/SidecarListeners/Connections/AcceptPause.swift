internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import RedisClient
internal import SidecarSettings

/// Pauses a listener that could not accept a connection: without file descriptors, it would retry in a loop. Clients
/// that connect meanwhile wait.
///
/// NIO's `AcceptBackoffHandler` delays the next read but leaves the failed one pending.
final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    private let length: TimeAmount
    private let whenExhausted: () -> Void
    private var resumption: Scheduled<Void>?

    /// - Parameter whenExhausted: called each time no descriptor is free for a connection.
    init(_ length: TimeAmount = .seconds(1), whenExhausted: @escaping () -> Void) {
        self.length = length
        self.whenExhausted = whenExhausted
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? IOError else { return context.fireErrorCaught(error) }
        let channel = context.channel
        guard let options = channel.syncOptions else { return }
        // Turning `autoRead` on and off ends the pending read.
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
    /// The uptime in nanoseconds, for decisions that take the time as an argument.
    package var uptime: Int64 { Int64(clamping: now.uptimeNanoseconds) }

    /// Waits until a listener's connections have closed, for at most 5 seconds. They close once they are answered; the
    /// end of the process closes the others.
    func waitUntilEmpty(_ isEmpty: @escaping @Sendable () -> Bool) async throws {
        let done = makePromise(of: Void.self)
        // Polling suffices: it runs only during shutdown, for 5 seconds at most.
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
    /// Describes a listener that cannot be opened.
    /// - Parameters:
    ///   - key: the setting to change, such as `listen.http`.
    ///   - hint: further advice if permission is denied.
    init(cannotListen key: String, at address: String, _ error: any Error, permissionHint hint: String? = nil) {
        let reason = NetworkReason(error)
        let isDenied = reason.errorCode == EACCES || reason.errorCode == EPERM
        self.init("\(key) \(address): \(reason)" + (isDenied ? hint.map { ": \($0)" } ?? "" : ""))
    }

    /// Describes a listener that cannot be opened at `endpoint`.
    init(cannotListen key: String, at endpoint: SocketEndpoint, _ error: any Error) {
        self.init(
            cannotListen: key, at: "\(endpoint)", error,
            permissionHint: (1..<1024).contains(endpoint.port) ? "ports below 1024 need root or CAP_NET_BIND_SERVICE" : nil
        )
    }
}
