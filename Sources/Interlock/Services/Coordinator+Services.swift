internal import InterlockCore

extension Coordinator {
    /// A permit for a call that waits as its service says, unless its caller says how long.
    func acquirePermit(
        service: String, cost: Int64, subject: String?, patience: Duration?
    ) async throws -> PermitAnswer {
        guard LimitRequest.costs.contains(cost) else {
            throw InterlockError(
                .invalid,
                "the cost of a call is \(LimitRequest.costs.lowerBound) to \(LimitRequest.costs.upperBound), not \(cost)")
        }
        if let subject {
            do throws(ResourceName.Violation) {
                _ = try ResourceName(subject)
            } catch {
                throw InterlockError(.invalid, "the call's subject: \(error)")
            }
        }
        let policy = definition(ofService: service)?.onLimit
        let patience = patience ?? (policy.map { $0.action == .deny ? .zero : $0.patience } ?? .zero)
        return try await acquirePermit(
            service: service, cost: cost, subject: subject, waitMilliseconds: max(0, patience.wholeMilliseconds))
    }

    /// Reports what became of a permitted call, also for a caller who was cancelled. It takes no longer than Redis may; a
    /// report that fails is not worth an error: the call was made.
    func settlePermit(service: String, permit: PermitID, _ report: OutcomeReport) async {
        await withCheckedContinuation { continuation in
            calls.reportPermit(
                service: service, permit: permit, report,
                completion: Completion { _, _ in
                    continuation.resume()
                    return true
                })
        }
    }
}
