import EnvoyMessages
import InterlockCore
import InterlockJudge
import SwiftProtobuf

extension DescriptorClient {
    typealias Response = Envoy_Service_Ratelimit_V3_RateLimitResponse

    /// Returns whether a call may end with this gRPC status: the sidecar cannot decide it, or is shutting down.
    static func isRefusal(_ status: Int) -> Bool { status == 13 || status == 14 }

    static func response(_ grpcResponse: GRPCWireConnection.Response) -> Response? {
        grpcResponse.message.flatMap { try? Response(serializedBytes: $0) }
    }

    /// Returns the endings of a request's operations. Reports a response that the service does not document.
    func endings(of question: Question, _ grpcResponse: GRPCWireConnection.Response, from sidecar: Int)
        -> [OperationEnding]
    {
        func all(_ code: String) -> [OperationEnding] { question.rules.map { _ in .failed(code: code) } }
        guard grpcResponse.status == 0 else {
            if !Self.isRefusal(grpcResponse.status) {
                complain(of: "grpc-status \(grpcResponse.status)", from: sidecar)
            }
            return all(grpcResponse.status == 14 ? "UNAVAILABLE" : "ERR")
        }
        guard let response = Self.response(grpcResponse) else {
            complain(of: "its message is not a RateLimitResponse", from: sidecar)
            return all("?")
        }
        if let inconsistency = inconsistency(in: response, question) {
            complain(of: "\(inconsistency): \(response.textFormatString())", from: sidecar)
            return all("?")
        }
        // Redis may still have executed the command after the sidecar gave up.
        if Self.cause(in: response) == "redis" { return all("UNAVAILABLE") }
        let isIndependent = rules[question.rules[0]].domain.isIndependent
        return response.statuses.map { status in
            if status.code == .overLimit {
                return .refused(.limited(retryAfterMilliseconds: status.resetAfterMilliseconds))
            }
            if response.overallCode == .overLimit, !isIndependent { return .refused(.other("another descriptor")) }
            return .done(
                .taken(
                    limit: Int64(status.currentLimit.requestsPerUnit), remaining: Int64(status.limitRemaining),
                    resetAfterMilliseconds: status.resetAfterMilliseconds))
        }
    }

    /// Returns the value of the header field `Interlock-Cause`.
    private static func cause(in response: Response) -> String? {
        response.responseHeadersToAdd.first { $0.key == "Interlock-Cause" }?.value
    }

    /// Returns a description of the inconsistency in a response; `nil` if it is consistent.
    private func inconsistency(in response: Response, _ question: Question) -> String? {
        guard response.statuses.count == question.rules.count else {
            return "\(response.statuses.count) statuses for \(question.rules.count) descriptors"
        }
        guard ([response.overallCode] + response.statuses.map(\.code)).allSatisfy({ $0 == .ok || $0 == .overLimit }) else {
            return "an unknown code"
        }
        let isOverLimit = response.overallCode == .overLimit
        guard isOverLimit == response.statuses.contains(where: { $0.code == .overLimit }) else {
            return "overall_code contradicts the statuses"
        }
        let cause = Self.cause(in: response)
        guard isOverLimit ? ["limit", "local", "redis"].contains(cause) : cause == nil else {
            return "Interlock-Cause is \(cause ?? "missing")"
        }
        guard cause != "redis" else { return nil }
        for (rule, status) in zip(question.rules, response.statuses) {
            guard status.hasCurrentLimit, Int64(status.currentLimit.requestsPerUnit) == rules[rule].limit.limit else {
                return "current_limit is not \(rules[rule].limit.limit)"
            }
        }
        return nil
    }
}

extension DescriptorClient.Response.DescriptorStatus {
    /// The time until the limit resets, in milliseconds.
    fileprivate var resetAfterMilliseconds: Int64 {
        durationUntilReset.seconds * 1000 + Int64(durationUntilReset.nanos) / 1_000_000
    }
}
