package import Interlock
package import InterlockCore

/// One step of a traced call. Confined to the coordinator's event loop.
package final class Span: StepSpan {
    package enum Kind: Sendable {
        case `internal`, server, client
    }

    enum Value: Hashable, Sendable {
        case text(String)
        case integer(Int64)
    }

    /// The trace, and the span's ID, which is sent to callees as their parent.
    package let context: TraceContext
    private let tracer: Tracer
    private let parentID: UInt64
    private let name: String
    private let kind: Kind
    /// The start, as Unix time in nanoseconds.
    package let startedAt: Int64
    private var attributes: [(name: String, value: Value)] = []
    private var failure: String?
    private var isEnded = false

    init(_ name: String, kind: Kind, context: TraceContext, parentID: UInt64, startedAt: Int64, tracer: Tracer) {
        self.name = name
        self.kind = kind
        self.context = context
        self.parentID = parentID
        self.startedAt = startedAt
        self.tracer = tracer
        attributes.reserveCapacity(Self.expectedAttributes)
    }

    /// Begins a step within this one.
    /// - Parameter start: the start, as Unix time in nanoseconds; `nil` means the current time.
    package func child(_ name: String, kind: Kind = .internal, at start: Int64? = nil) -> Span {
        var context = context
        context.spanID = tracer.newSpanID()
        return Span(
            name, kind: kind, context: context, parentID: self.context.spanID, startedAt: start ?? tracer.now(), tracer: tracer)
    }

    package func childSpan(_ name: String, from start: Int64) -> Span { child(name, at: start) }

    package var now: Int64 { tracer.now() }

    /// Whether the span continues a trace. Its parent is then the caller's span or another span of this sidecar.
    package var hasParent: Bool { parentID != 0 }

    private static let expectedAttributes = 4
    /// The maximum length of a text, in bytes. Longer texts are truncated, so that the size of the queue is bounded.
    private static let maximumTextBytes = 512

    private static func truncated(_ text: String) -> String {
        text.utf8.count <= maximumTextBytes ? text : String(decoding: text.utf8.prefix(maximumTextBytes), as: UTF8.self)
    }

    package func set(_ name: String, _ value: String) { attributes.append((name, .text(Self.truncated(value)))) }

    package func set(_ name: String, _ value: Int64) { attributes.append((name, .integer(value))) }

    /// Marks the step as failed. The first reason is kept.
    package func fail(_ reason: String) { failure = failure ?? Self.truncated(reason) }

    deinit {
        abandon()
    }

    /// Ends the span and queues it. Later changes have no effect.
    /// - Parameter end: the end, as Unix time in nanoseconds; `nil` means the current time.
    package func end(at end: Int64? = nil) {
        guard !isEnded else { return }
        isEnded = true
        tracer.queue.push(
            FinishedSpan(
                context: context, parentID: parentID, name: name, kind: kind, startedAt: startedAt,
                endedAt: max(startedAt, end ?? tracer.now()), attributes: attributes, failure: failure))
    }
}

extension StepTrace {
    /// Begins the span of a step. Called on the coordinator's event loop.
    /// - Parameter parent: the span of the call that the step belongs to.
    package convenience init(_ step: Step, _ subject: String, wait: Int64, of parent: Span, calls: CoordinatorCalls) {
        self.init(
            step, subject, wait: wait, span: parent.child(step.rawValue), requestedAt: calls.now(),
            limitsRequestedAt: { calls.limitsRequestedAt })
    }
}
