internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import RedisClient
internal import SidecarSettings

/// Pauses a listener after it fails to accept a connection: without free file descriptors, it would retry in a loop.
/// Clients that connect during the pause wait.
///
/// NIO's `AcceptBackoffHandler` delays the next read but leaves the failed one pending.
final class AcceptPause: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    private let duration: TimeAmount
    private let whenExhausted: () -> Void
    private var resumption: Scheduled<Void>?

    /// Creates the handler.
    /// - Parameters:
    ///   - duration: the length of a pause.
    ///   - whenExhausted: called each time that no descriptor is free for a connection.
    init(_ duration: TimeAmount = .seconds(1), whenExhausted: @escaping () -> Void) {
        self.duration = duration
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
        resumption = channel.eventLoop.assumeIsolated().scheduleTask(in: duration) { [self] in
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
    /// The monotonic time, for decisions that take the time as an argument.
    package var uptimeNanoseconds: Int64 { Int64(clamping: now.uptimeNanoseconds) }

    /// Waits until a listener's connections have closed, for at most 5 seconds. A connection closes once its calls are
    /// answered; the end of the process closes the rest.
    func waitUntilEmpty(_ isEmpty: @escaping @Sendable () -> Bool) async throws {
        let completion = makePromise(of: Void.self)
        // Polling suffices, because it runs only during shutdown.
        scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(20), notifying: nil) { task in
            guard isEmpty() else { return }
            task.cancel()
            completion.succeed()
        }
        let timeout = scheduleTask(in: .seconds(5)) { completion.succeed() }
        try await completion.futureResult.get()
        timeout.cancel()
    }
}

extension SidecarError {
    /// Describes a listener that cannot be opened.
    /// - Parameters:
    ///   - key: the setting to change, such as `listen.http`.
    ///   - hint: advice for the case that permission is denied.
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
