internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// What a TCP connection does about a peer that vanished without a word: its host lost power, or the network between is cut.
/// A linked lease lives as long as its client's connection, so a connection must not outlive its client by much.
enum PeerLiveness {
    private static let idleSeconds: SocketOptionValue = 15
    private static let probeSeconds: SocketOptionValue = 5
    private static let probes: SocketOptionValue = 3
    /// For how long bytes that were sent may stay unacknowledged.
    private static let unacknowledgedMilliseconds: SocketOptionValue = 30_000

    /// For connections that are accepted on TCP; Unix sockets have no such peers.
    static let options: [(ChannelOptions.Types.SocketOption, SocketOptionValue)] = [
        (.init(level: .socket, name: .so_keepalive), 1),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPIDLE)), idleSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPINTVL)), probeSeconds),
        (.init(level: .tcp, name: .init(rawValue: TCP_KEEPCNT)), probes),
        (.init(level: .tcp, name: .init(rawValue: TCP_USER_TIMEOUT)), unacknowledgedMilliseconds),
    ]

    /// Whether an error says that nothing was heard of the peer: it may live on, behind a network that fails. A process that ends has
    /// its system say so, by an end or by a reset.
    static func isSilence(_ error: any Error) -> Bool {
        guard let code = (error as? IOError)?.errnoCode else { return false }
        return [ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN].contains(code)
    }

    /// Sets the options on an accepted connection.
    static func watch(_ channel: any Channel) {
        guard channel.remoteAddress?.ipAddress != nil else { return }
        // A system that does not know one of them goes without: the connection is as good otherwise.
        for (option, value) in options { _ = channel.setOption(option, value: value) }
    }
}

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

/// A connection that keeps what it writes until the end of the tick.
protocol FlushedConnection: AnyObject {
    /// Hands what is written to the socket, in a slice of the connection. Called once per tick and connection.
    func flush()
}

/// The connections of a door that have something to write: all are flushed at the end of the tick, by one task of the loop. Confined to
/// their event loop.
final class DoorFlushes {
    private let eventLoop: any EventLoop
    private var planned: [any FlushedConnection] = []

    init(eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func plan(_ connection: any FlushedConnection) {
        planned.append(connection)
        guard planned.count == 1 else { return }
        eventLoop.assumeIsolated().execute { [self] in
            let connections = planned
            planned.removeAll(keepingCapacity: true)
            for connection in connections { connection.flush() }
        }
    }
}

extension EventLoop {
    /// The uptime in nanoseconds, for decisions that know no clock.
    var uptime: Int64 { Int64(clamping: now.uptimeNanoseconds) }

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

/// Bounds on what a request may ask for, at every door.
package enum DoorBounds {
    /// The longest time, in milliseconds: more than 30 years, and far from where sums of times overflow.
    package static let longestMilliseconds: Int64 = 1_000_000_000_000
    package static let fences: ClosedRange<Int64> = 1...(ScriptNumber.mostExact - 1)
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

/// One timer that serves one deadline after another. To move a deadline later, or to call it off, costs nothing: the timer is looked
/// at when it goes off. Confined to its event loop.
final class LazyAlarm {
    private let eventLoop: any EventLoop
    private let action: () -> Void
    private var due: NIODeadline?
    private var armed: (at: NIODeadline, timer: Scheduled<Void>)?

    /// - Parameter action: called when a deadline has come; it keeps what it captures until `cancel`.
    init(on eventLoop: any EventLoop, action: @escaping () -> Void) {
        self.eventLoop = eventLoop
        self.action = action
    }

    /// Goes off at `deadline` or soon after, and not at the one that was set before.
    func set(_ deadline: NIODeadline) {
        due = deadline
        if let armed {
            guard deadline < armed.at else { return }
            armed.timer.cancel()
        }
        arm(deadline)
    }

    /// No deadline is set.
    func clear() { due = nil }

    /// It is not used any more.
    func cancel() {
        due = nil
        armed?.timer.cancel()
        armed = nil
    }

    private func arm(_ deadline: NIODeadline) {
        armed = (deadline, eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [self] in goOff() })
    }

    private func goOff() {
        armed = nil
        guard let due else { return }
        guard due <= eventLoop.now else { return arm(due) }
        self.due = nil
        action()
    }
}
