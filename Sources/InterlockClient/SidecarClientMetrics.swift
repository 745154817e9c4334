internal import CoreMetrics
internal import InterlockCore

/// The metrics of a client, in the program's metrics backend.
struct SidecarClientMetrics: Sendable {
    private let answered = Counter(label: "interlock_client_calls_total", dimensions: [("result", "answered")])
    private let refused = Counter(label: "interlock_client_calls_total", dimensions: [("result", "error")])
    private let failed = Counter(label: "interlock_client_calls_total", dimensions: [("result", "no_answer")])
    let connects = Counter(label: "interlock_client_connects_total")
    /// The number of failed connection attempts and lost connections.
    let connectionFailures = Counter(label: "interlock_client_connection_failures_total")

    /// Performs a call and counts it by its result: an answer, an error that the sidecar reports, or no answer.
    func counting<Reply>(_ call: () async throws -> Reply) async throws -> Reply {
        do {
            let reply = try await call()
            answered.increment()
            return reply
        } catch {
            ((error as? InterlockError)?.isFromSidecar == true ? refused : failed).increment()
            throw error
        }
    }
}
