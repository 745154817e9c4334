extension HTTPClientStateMachine {
    /// A request and its response, while both are in progress.
    struct Exchange {
        enum Request {
            case sending
            case sent
        }

        enum Response {
            case awaited
            case begun
            /// The head switches protocols, and the end of the response has not arrived.
            case switching
            /// The response that switches protocols is complete.
            case switched
        }

        /// The progress of the server's work on the request, as far as it is known.
        enum Processing: Equatable {
            case unsent
            case sent(at: Duration)
            /// The server reports that it will not act on the request.
            case unprocessed
            /// The response has begun: with any byte on a connection, with a head on a stream.
            case responding
        }

        /// Whether a flush is in progress. A response that is read during a flush is the connection's last one: NIO
        /// reads then only to drain the socket after a failed write.
        enum Flush {
            case idle
            case inFlight
        }

        /// Whether a part of the body ended exactly where the last read did.
        enum Tail: Equatable {
            /// No part of the body has reached the end of the last read.
            case open(ReadEnd)
            /// A part of the body ended where the read did.
            case complete
        }

        /// The time within which a request may cross on the network with the server's close of the idle connection.
        private static let staleWindow = Duration.seconds(1)

        let usage: Usage
        var request = Request.sending
        var response = Response.awaited
        var processing = Processing.unsent
        var flush = Flush.idle
        var tail = Tail.open(.address(0))
        var disposition = Disposition.reusable

        init(usage: Usage) {
            self.usage = usage
        }

        mutating func take(_ head: ResponseHead) -> HeadAction {
            guard disposition.isOpen else { return .ignore }
            switch response {
            case .awaited: processing = .responding
            case .switching, .switched: return .ignore
            case .begun:
                disposition = .closing(.none)
                return .close
            }
            switch head {
            case .informational: return .deliverInformational
            case .switching:
                response = .switching
                return .keepForSwitch
            case .final(let keepsAlive):
                response = .begun
                if !keepsAlive { disposition = .last }
                return .deliver
            case .malformed(let error):
                disposition = .closing(.other)
                return .reject(error)
            }
        }

        mutating func takeEnd() -> EndAction {
            guard disposition.isOpen else { return .ignore }
            switch response {
            case .begun: return .deliver
            case .switched: return .ignore
            case .switching:
                response = .switched
                return .switchProtocols
            case .awaited:
                disposition = .closing(.other)
                return .reject(.missingHead)
            }
        }

        /// The next use of the connection, once the response is complete.
        var nextUse: NextUse {
            // If the server responds early, the rest of the request is not sent.
            guard disposition == .reusable, request == .sent, flush == .idle else { return .close }
            switch tail {
            case .complete, .open(.emptyLine): return .another
            // The decoder may hold the beginning of another response, and would read the next one as its continuation.
            case .open(.address): return .close
            }
        }

        mutating func take(_ cause: Cause) -> ErrorAction {
            switch disposition {
            case .reusable, .last:
                disposition = .closing(cause)
                return .recordCauseAndClose
            case .broken(let earlier):
                disposition = .closing(earlier)
                return .close
            case .closing(.none):
                disposition = .closing(cause)
                return .recordCause
            case .closing: return .ignore
            }
        }

        func failureKind(at now: Duration) -> FailureKind {
            switch processing {
            case .responding: return .failed
            case .unsent, .unprocessed: return .unprocessed
            case .sent(let sentAt):
                switch disposition.cause {
                case .refusedStream: return .unprocessed
                case .other: return .failed
                case .none, .connectionEnd:
                    // A server that closes an idle connection has not seen the request. One that closes it later has
                    // failed while working on the request.
                    return usage == .reused && now - sentAt <= Self.staleWindow ? .stale : .failed
                }
            }
        }
    }

    /// The further use of a connection that carries a request.
    enum Disposition: Equatable {
        /// Another request follows.
        case reusable
        /// The connection closes after the response.
        case last
        /// A write has failed, and the channel will end soon.
        case broken(Cause)
        /// The connection has left the pool and is closing. Its remaining bytes are ignored.
        case closing(Cause)

        /// Whether the response is still delivered to the receiver.
        var isOpen: Bool {
            switch self {
            case .reusable, .last: true
            case .broken, .closing: false
            }
        }

        var isPooled: Bool {
            switch self {
            case .reusable, .last, .broken: true
            case .closing: false
            }
        }

        var cause: Cause {
            switch self {
            case .reusable, .last: .none
            case .broken(let cause), .closing(let cause): cause
            }
        }
    }

    enum Usage {
        case fresh
        /// The connection has carried an earlier request.
        case reused
    }

    enum NextUse {
        case another
        case close
    }
}
