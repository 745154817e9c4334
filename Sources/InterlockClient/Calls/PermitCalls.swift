package import InterlockCore
package import RedisClient

/// A permit for one upstream call. The call counts as unfinished until the client reports its outcome or the permit
/// expires.
package struct GrantedPermit: Hashable, Sendable {
    package var id: String
    /// The breaker's state at the grant.
    package var state: BreakerSnapshot.State

    package init(id: String, state: BreakerSnapshot.State) {
        self.id = id
        self.state = state
    }
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

        /// Decodes `[1, permit, state, -1]` or `[0, reason, state, retry-after-ms]`.
        package func decode(_ reply: RedisReply) throws(RedisError) -> Result<GrantedPermit, ServiceCallError> {
            guard case .array(let parts) = reply, parts.count == 4, let isGranted = parts[0].integer,
                let idOrReason = parts[1].text, let stateName = parts[2].text,
                let retryAfterMilliseconds = parts[3].integer
            else { throw reply.unexpected(for: "PERMIT.ACQUIRE") }
            // An unknown state, which a newer sidecar may report, must not invalidate the permit.
            let state = BreakerSnapshot.State(rawValue: stateName)
            guard isGranted == 1 else {
                return .failure(
                    ServiceCallError(
                        refused: InterlockError.Code(rawValue: idOrReason), service: request.service, state: state,
                        retryAfterMilliseconds: retryAfterMilliseconds))
            }
            return .success(GrantedPermit(id: idOrReason, state: state ?? .closed))
        }
    }

    /// `PERMIT.REPORT service permit OK|ERROR|IGNORE [LATENCY ms] [STATUS code] [RETRYAFTER ms]`. The reply is the
    /// breaker's state after the report.
    package struct Report: SidecarCall {
        package var service: String
        package var permit: String
        package var report: OutcomeReport

        package init(service: String, permit: String, _ report: OutcomeReport) {
            self.service = service
            self.permit = permit
            self.report = report
        }

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("PERMIT.REPORT")
            encoder.append(service)
            encoder.append(permit)
            encoder.append(report.outcome.rawValue.uppercased())
            // The values are clamped, because the sidecar would reject one out of range, and the outcome would be lost.
            if let latency = report.latency { encoder.append("LATENCY", min(max(.zero, latency), Self.maximumDuration)) }
            if let status = report.status, (100...599).contains(status) {
                encoder.append("STATUS")
                encoder.append(status)
            }
            if let retryAfter = report.retryAfter {
                encoder.append("RETRYAFTER", min(max(.zero, retryAfter), Self.maximumDuration))
            }
        }

        private static let maximumDuration = Duration.seconds(1_000_000_000)

        package func decode(_ reply: RedisReply) throws(RedisError) -> BreakerSnapshot.State {
            guard let state = reply.text.flatMap(BreakerSnapshot.State.init) else {
                throw reply.unexpected(for: "PERMIT.REPORT")
            }
            return state
        }
    }
}
