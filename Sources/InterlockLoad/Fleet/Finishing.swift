internal import InterlockProcesses
internal import NIOConcurrencyHelpers

/// Runs `work` in a task of its own, which is not cancelled, and waits for it only so long.
/// - Parameters:
///   - limit: how long to wait; then `work` goes on unattended.
///   - expectation: what `work` is to bring about, for the error's message.
/// - Throws: `FleetError` when it takes longer; what `work` throws; `CancellationError`.
func finishing<Value: Sendable>(
    within limit: Duration, _ expectation: String, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let outcome = NIOLockedValueBox<Result<Value, any Error>?>(nil)
    Task {
        do {
            let value = try await work()
            outcome.withLockedValue { $0 = .success(value) }
        } catch {
            outcome.withLockedValue { $0 = .failure(error) }
        }
    }
    do {
        try await eventually(within: limit, expectation) { outcome.withLockedValue { $0 != nil } }
    } catch let error as DeadlineExceeded {
        throw FleetError(error.description)
    }
    guard let result = outcome.withLockedValue({ $0 }) else { throw FleetError("\(expectation): no outcome") }
    return try result.get()
}
