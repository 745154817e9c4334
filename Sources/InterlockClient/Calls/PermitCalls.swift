package import Hiredis
internal import InterlockCore

/// Permission for one upstream call. Report how the call went; a permit without a report counts as unfinished until it expires.
public struct SidecarPermit: Hashable, Sendable {
    /// The service's name.
    public var service: String
    /// What its report names it by.
    public var id: String
    /// The breaker's state.
    public var state: SidecarBreaker.State
}

/// Why a call may not be made now.
public struct SidecarRefusal: Hashable, Sendable {
    /// What refused it. Newer sidecars may have more reasons.
    public struct Reason: RawRepresentable, Hashable, Sendable {
        /// The reason as the RESP door spells it.
        public let rawValue: String

        /// A reason by its name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        /// A rate limit is used up.
        public static let limited = Reason(rawValue: "limited")
        /// The breaker is open.
        public static let open = Reason(rawValue: "open")
        /// As many calls are under way as may be.
        public static let busy = Reason(rawValue: "busy")
    }

    /// What refused it.
    public var reason: Reason
    /// The breaker's state.
    public var state: SidecarBreaker.State
    /// When to try again; `nil`: nobody can say.
    public var retryAfter: Duration?
}

/// Whether an upstream call may be made.
public enum SidecarPermission: Hashable, Sendable {
    /// The call may be made; report how it went.
    case granted(SidecarPermit)
    /// The call may not be made now.
    case refused(SidecarRefusal)
}

/// How an upstream call went.
public enum SidecarOutcome: String, Hashable, Sendable {
    /// The call succeeded.
    case success = "OK"
    /// The call failed.
    case failure = "ERROR"
    /// It says nothing about the service: the caller gave up, or sent nonsense.
    case ignored = "IGNORE"
}

/// The commands `PERMIT.*`.
package enum PermitCalls {
    /// `PERMIT.ACQUIRE service [COST n] [SUBJECT s] [WAIT ms]`.
    package struct Acquire: SidecarCall {
        package var request: UpstreamCallRequest

        package init(_ request: UpstreamCallRequest) {
            self.request = request
        }

        package var wait: Duration { request.wait }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("PERMIT.ACQUIRE")
            request.encode(into: &encoder)
        }

        /// `[1, permit, state, -1]`, or `[0, reason, state, retry-after-ms]`.
        package func decode(_ reply: RedisReply) throws(RedisError) -> SidecarPermission {
            guard case .array(let parts) = reply, parts.count == 4, let isGranted = parts[0].integer, let word = parts[1].text,
                let state = parts[2].text.map(SidecarBreaker.State.init), let retryAfter = parts[3].integer
            else { throw reply.unexpected(for: "PERMIT.ACQUIRE") }
            guard isGranted == 1 else {
                return .refused(
                    SidecarRefusal(
                        reason: SidecarRefusal.Reason(rawValue: word), state: state,
                        retryAfter: retryAfter < 0 ? nil : .milliseconds(retryAfter)))
            }
            return .granted(SidecarPermit(service: request.service, id: word, state: state))
        }
    }

    /// `PERMIT.REPORT service permit OK|ERROR|IGNORE [LATENCY ms] [STATUS code] [RETRYAFTER ms]`: the breaker's state after it.
    package struct Report: SidecarCall {
        package var service: String
        package var permit: String
        package var outcome: SidecarOutcome
        package var latency: Duration?
        package var status: Int?
        package var retryAfter: Duration?

        package init(
            service: String, permit: String, outcome: SidecarOutcome, latency: Duration? = nil, status: Int? = nil,
            retryAfter: Duration? = nil
        ) {
            self.service = service
            self.permit = permit
            self.outcome = outcome
            self.latency = latency
            self.status = status
            self.retryAfter = retryAfter
        }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("PERMIT.REPORT")
            encoder.append(service)
            encoder.append(permit)
            encoder.append(outcome.rawValue)
            if let latency { encoder.append("LATENCY", latency) }
            if let status {
                encoder.append("STATUS")
                encoder.append(status)
            }
            if let retryAfter { encoder.append("RETRYAFTER", retryAfter) }
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> SidecarBreaker.State {
            guard let state = reply.text else { throw reply.unexpected(for: "PERMIT.REPORT") }
            return SidecarBreaker.State(rawValue: state)
        }
    }
}
