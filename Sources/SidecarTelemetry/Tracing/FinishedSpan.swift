internal import InterlockCore

/// A finished span in the queue.
struct FinishedSpan: Sendable {
    var context: TraceContext
    /// The ID of the parent span; 0 for the first span of a trace.
    var parentID: UInt64
    var name: String
    var kind: Span.Kind
    var startedAtNanoseconds: Int64
    var endedAtNanoseconds: Int64
    var attributes: [(name: String, value: Span.Value)]
    /// The reason why the step failed; `nil` if it succeeded.
    var failure: String?
}
