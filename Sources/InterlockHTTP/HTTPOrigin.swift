package import NIOCore
package import NIOSSL

/// A server that requests are sent to: its address, and how it is spoken to.
package struct HTTPOrigin: Sendable {
    /// As it is dialled, and as its certificate must name it; an IPv6 address without brackets.
    package let host: String
    package let port: Int
    /// `nil`: in the clear.
    package let tls: NIOSSLContext?

    package init(host: String, port: Int, tls: NIOSSLContext?) {
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        self.port = port
        self.tls = tls
    }

    /// What the `Host` field says.
    package var authority: String {
        let host = host.contains(":") ? "[\(host)]" : host
        return port == (tls == nil ? 80 : 443) ? host : "\(host):\(port)"
    }

    /// What a client asks of TLS: 1.2 at least, and a certificate that it trusts for this name.
    /// - Parameter certificateAuthority: a file of certificates in PEM; `nil`: those the system trusts.
    /// - Throws: `NIOSSLError` when the file cannot be used.
    package static func clientTLS(certificateAuthority: String?) throws -> NIOSSLContext {
        guard let certificateAuthority else { return try trustingSystem.get() }
        return try clientTLS(trusting: .file(certificateAuthority))
    }

    /// One for all: the system's certificates take a moment to read, and memory.
    private static let trustingSystem = Result { try clientTLS(trusting: .default) }

    private static func clientTLS(trusting roots: NIOSSLTrustRoots) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        configuration.trustRoots = roots
        return try NIOSSLContext(configuration: configuration)
    }

    /// Puts TLS between a connection's bytes and their meaning, where this origin speaks it.
    func secure(_ channel: any Channel) throws {
        guard let tls else { return }
        // An address is no name that a server is asked for (RFC 6066, section 3); its certificate is checked all the same.
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        try channel.pipeline.syncOperations.addHandler(
            NIOSSLClientHandler(context: tls, serverHostname: isAddress ? nil : host))
    }
}

/// One timer that serves one deadline after another. To move a deadline later, or to call it off, costs nothing: the timer is looked
/// at when it goes off. Confined to its event loop.
package final class LazyAlarm {
    private let eventLoop: any EventLoop
    private let action: () -> Void
    private var due: NIODeadline?
    private var armed: (at: NIODeadline, timer: Scheduled<Void>)?

    /// - Parameter action: called when a deadline has come; it keeps what it captures until `cancel`.
    package init(on eventLoop: any EventLoop, action: @escaping () -> Void) {
        self.eventLoop = eventLoop
        self.action = action
    }

    /// Goes off at `deadline` or soon after, and not at the one that was set before.
    package func set(_ deadline: NIODeadline) {
        due = deadline
        if let armed {
            guard deadline < armed.at else { return }
            armed.timer.cancel()
        }
        arm(deadline)
    }

    /// No deadline is set.
    package func clear() { due = nil }

    /// It is not used any more.
    package func cancel() {
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
        guard due <= .now() else { return arm(due) }
        self.due = nil
        action()
    }
}
