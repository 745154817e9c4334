internal import InterlockCore

/// A finished span in the queue.
struct FinishedSpan: Sendable {
    var context: TraceContext
    /// The ID of the parent span; 0 if there is none.
    var parentID: UInt64
    var name: String
    var kind: Span.Kind
    var startedAt: Int64
    var endedAt: Int64
    var attributes: [(name: String, value: Span.Value)]
    /// The reason why the step failed; `nil` if it succeeded.
    var failure: String?
}
