internal import Glibc
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import RedisClient

extension ProbeFinding {
    /// Creates the finding of a failed probe: bad, or unjudged if this sidecar caused the error.
    init(_ error: any Error) {
        switch error {
        case is CancellationError: self = .unjudged("the probe was stopped")
        case let error as HTTPFetch.Failure: self.init(error)
        case is HTTPClientConnection.Closed: self = .bad(Self.closed)
        case let error as HTTPClientConnection.Malformed: self = .bad("\(error.reason)")
        case is HTTPParserError: self = .bad("the response is not HTTP/1.1; set http2: true if the service requires HTTP/2")
        case let error as NIOConnectionError: self.init(error)
        case let error as IOError: self.init(error)
        case let error as NIOSSLError: self.init(error)
        case let error as ChannelError: self.init(error)
        default: self = .bad("\(NetworkReason(error))")
        }
    }

    private static let closed: ProbeReason = "the connection was closed before the response was complete"

    private init(_ error: HTTPFetch.Failure) {
        switch error {
        case .cancelled: self = .unjudged("the probe was stopped")
        case .timedOut: self = .bad("no complete response in time")
        case .notConnected(let error), .interrupted(let error): self.init(error)
        }
    }

    /// Creates the finding of a probe whose connection attempts all failed: unjudged if this sidecar caused one of the
    /// errors.
    private init(_ error: NIOConnectionError) {
        let attempts = error.connectionErrors.map { ProbeFinding($0.error) }
        if let unjudgedAttempt = attempts.first(where: { if case .unjudged = $0 { true } else { false } }) {
            self = unjudgedAttempt
        } else if let firstAttempt = attempts.first {
            self = firstAttempt
        } else {
            self = .bad("\(NetworkReason(error))")
        }
    }

    private init(_ error: IOError) {
        switch error.errnoCode {
        case EMFILE, ENFILE: self = .unjudged("this sidecar is out of file descriptors")
        case ENOMEM, ENOBUFS: self = .unjudged("this host is out of memory for connections")
        case EADDRNOTAVAIL: self = .unjudged("this host is out of ports for connections")
        default: self = .bad("\(NetworkReason(error))")
        }
    }

    private init(_ error: NIOSSLError) {
        switch error {
        case .noSuchFilesystemObject, .failedToLoadCertificate: self = .unjudged("the tls.ca file cannot be used")
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
