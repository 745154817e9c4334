internal import InterlockCore

/// A step that is over, as the queue is told of it.
struct FinishedSpan: Sendable {
    var context: TraceContext
    /// 0: it has none.
    var parentID: UInt64
    var name: String
    var kind: Span.Kind
    var startedAt: Int64
    var endedAt: Int64
    var attributes: [(name: String, value: Span.Value)]
    /// `nil`: it did what it was made for.
    var failure: String?
}
