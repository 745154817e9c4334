internal import Glibc
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import RedisClient

extension ProbeFinding {
    /// Creates the finding of a probe that failed: bad, unless the error is this sidecar's own.
    init(_ error: any Error) {
        switch error {
        case is CancellationError: self = .unjudged("the probe was stopped")
        case let error as HTTPFetch.Failure: self.init(error)
        case is HTTPClientConnection.Closed: self = .bad(Self.closed)
        case let error as HTTPClientConnection.Malformed: self = .bad("\(error.reason)")
        case is HTTPParserError: self = .bad("the answer is not HTTP/1.1; a service that speaks only HTTP/2 needs http2: true")
        case let error as NIOConnectionError: self.init(error)
        case let error as IOError: self.init(error)
        case let error as NIOSSLError: self.init(error)
        case let error as ChannelError: self.init(error)
        default: self = .bad("\(NetworkReason(error))")
        }
    }

    private static let closed: ProbeReason = "the connection was closed before the whole answer had come"

    private init(_ error: HTTPFetch.Failure) {
        switch error {
        case .cancelled: self = .unjudged("the probe was stopped")
        case .timedOut: self = .bad("no whole answer came in time")
        case .notConnected(let error), .brokenOff(let error): self.init(error)
        }
    }

    /// Creates the finding if all connection attempts failed: unjudged if any error is this sidecar's own.
    private init(_ error: NIOConnectionError) {
        let attempts = error.connectionErrors.map { ProbeFinding($0.error) }
        if let own = attempts.first(where: { if case .unjudged = $0 { true } else { false } }) {
            self = own
        } else if let attempt = attempts.first {
            self = attempt
        } else {
            self = .bad("\(NetworkReason(error))")
        }
    }

    private init(_ error: IOError) {
        switch error.errnoCode {
        case EMFILE, ENFILE: self = .unjudged("this sidecar has no file descriptor left")
        case ENOMEM, ENOBUFS: self = .unjudged("this host has no memory left for a connection")
        case EADDRNOTAVAIL: self = .unjudged("this host has no port left for a connection")
        default: self = .bad("\(NetworkReason(error))")
        }
    }

    private init(_ error: NIOSSLError) {
        switch error {
        case .noSuchFilesystemObject, .failedToLoadCertificate: self = .unjudged("the file of tls.ca cannot be used")
        case .uncleanShutdown: self = .bad(Self.closed)
        default: self = .bad("\(NetworkReason(error))")
        }
    }

    private init(_ error: ChannelError) {
        switch error {
        case .ioOnClosedChannel, .alreadyClosed, .eof: self = .bad(Self.closed)
        default: self = .bad("\(NetworkReason(error))")
        }
    }
}
