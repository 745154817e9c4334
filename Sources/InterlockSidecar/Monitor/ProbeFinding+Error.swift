internal import AsyncHTTPClient
internal import Glibc
internal import InterlockCore
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

extension ProbeFinding {
    /// What a probe found that ended with an error: bad, unless the error is this side's own.
    init(_ error: any Error) {
        switch error {
        case is CancellationError: self = .unjudged("the probe was stopped")
        case let error as HTTPClientError: self.init(error)
        case let error as NIOConnectionError: self.init(error)
        case let error as IOError: self.init(error)
        case let error as NIOSSLError: self.init(error)
        case let error as ChannelError: self.init(error)
        default: self = .bad("\(String(describing: error))")
        }
    }

    private init(_ error: HTTPClientError) {
        switch error {
        case .cancelled, .alreadyShutdown: self = .unjudged("the probe was stopped")
        case .invalidURL, .emptyHost, .emptyScheme: self = .unjudged("the probe's URL cannot be used")
        case .remoteConnectionClosed: self = .bad("the connection was closed before the whole answer had come")
        default: self = .bad("\(error.shortDescription)")
        }
    }

    /// All attempts failed: a failure of this side's own says nothing, whatever the others say.
    private init(_ error: NIOConnectionError) {
        let attempts = error.connectionErrors.map { ProbeFinding($0.error) }
        if let own = attempts.first(where: { if case .unjudged = $0 { true } else { false } }) {
            self = own
        } else if let attempt = attempts.first {
            self = attempt
        } else {
            self = .bad("the name \(error.host) cannot be resolved")
        }
    }

    private init(_ error: IOError) {
        switch error.errnoCode {
        case EMFILE, ENFILE: self = .unjudged("this sidecar has no file descriptor left")
        case ENOMEM, ENOBUFS: self = .unjudged("this host has no memory left for a connection")
        case EADDRNOTAVAIL: self = .unjudged("this host has no port left for a connection")
        case ECONNREFUSED: self = .bad("the connection was refused")
        case ECONNRESET, EPIPE: self = .bad("the connection was reset")
        case EHOSTUNREACH, ENETUNREACH: self = .bad("there is no route to the service")
        case ETIMEDOUT: self = .bad("the connection timed out")
        default: self = .bad("\(error.description)")
        }
    }

    private init(_ error: NIOSSLError) {
        switch error {
        case .noSuchFilesystemObject, .failedToLoadCertificate: self = .unjudged("the file of tls.ca cannot be used")
        case .handshakeFailed(let cause): self = .bad("the TLS handshake failed: \(String(describing: cause))")
        case .uncleanShutdown: self = .bad("the connection was closed before the whole answer had come")
        default: self = .bad("TLS failed: \(String(describing: error))")
        }
    }

    private init(_ error: ChannelError) {
        switch error {
        case .connectTimeout: self = .bad("no connection in time")
        case .ioOnClosedChannel, .alreadyClosed, .eof: self = .bad("the connection was closed before the whole answer had come")
        default: self = .bad("\(String(describing: error))")
        }
    }
}
