internal import CoreMetrics
internal import InterlockCore

/// The metrics of a client, which go to the program's metrics backend.
struct SidecarClientMetrics: Sendable {
    private let answeredCalls = Counter(label: "interlock_client_calls_total", dimensions: [("result", "answered")])
    private let rejectedCalls = Counter(label: "interlock_client_calls_total", dimensions: [("result", "error")])
    private let unansweredCalls = Counter(label: "interlock_client_calls_total", dimensions: [("result", "no_answer")])
    let connects = Counter(label: "interlock_client_connects_total")
    /// The number of failed connection attempts and lost connections.
    let connectionFailures = Counter(label: "interlock_client_connection_failures_total")

    /// Performs a call and counts it by its result: an answer, an error that the sidecar reports, or no answer.
    func counting<Reply>(_ call: () async throws -> Reply) async throws -> Reply {
        do {
            let reply = try await call()
            answeredCalls.increment()
            return reply
        } catch {
            ((error as? InterlockError)?.isFromSidecar == true ? rejectedCalls : unansweredCalls).increment()
            throw error
        }
    }
}
