internal import InterlockCore
internal import RedisClient

extension InterlockError {
    /// Converts an error of the underlying Redis client.
    init(_ error: RedisError, _ configuration: SidecarClientConfiguration) {
        let address = configuration.address
        switch error.code {
        case .server(let condition):
            let prefix = condition.rawValue + " "
            let prefixRange = error.message.firstRange(of: prefix)
            let message = prefixRange.map { error.message[$0.upperBound...] } ?? error.message[...]
            self.init(Code(rawValue: condition.rawValue), String(message), isFromSidecar: true)
        case .notConnected:
            self.init(.notConnected, "there is no connection to the sidecar at \(address)")
        case .overloaded:
            self.init(.overloaded, "\(configuration.maximumInFlight) calls to the sidecar at \(address) are already in flight")
        case .timedOut:
            self.init(.responseTimedOut, "the sidecar at \(address) did not answer in time; the call may have been executed")
        case .replyLost:
            self.init(
                .responseLost,
                "the connection to the sidecar at \(address) was lost before the answer; the call may have been executed")
        case .connectionFailed:
            let redisName = configuration.redisConfiguration.displayName
            let sidecar = "the sidecar at \(address)"
            let message =
                error.message.contains(redisName)
                ? error.message.replacing(redisName, with: sidecar) : "cannot connect to \(sidecar): \(error.message)"
            self.init(.connectionFailed, message)
        case .protocolViolation where error == .httpPeer:
            self.init(
                .invalidResponse,
                "\(address.port.map { "\($0)" } ?? "\(address)") is the HTTP port; use the RESP port, for example \(SidecarAddress.standard)"
            )
        case .protocolViolation where error == .tlsPeer:
            self.init(.invalidResponse, "\(address) requires TLS; use rediss://\(address)")
        case .protocolViolation, .unexpectedReply:
            self.init(
                .invalidResponse,
                "the server at \(address) is not an Interlock sidecar: \(error.message); check the address and port")
        }
    }
}
