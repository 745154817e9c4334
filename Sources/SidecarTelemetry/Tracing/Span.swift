package import Interlock
package import InterlockCore

/// One step of a call that is traced. Confined to the coordinator's event loop.
package final class Span: StepSpan {
    package enum Kind: Sendable {
        case `internal`, server, client
    }

    enum Value: Hashable, Sendable {
        case text(String)
        case integer(Int64)
    }

    /// Which trace it belongs to, and its own ID: what those whom it calls are told.
    package let context: TraceContext
    private let tracer: Tracer
    private let parentID: UInt64
    private let name: String
    private let kind: Kind
    /// Nanoseconds since 1970.
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
        attributes.reserveCapacity(Self.usualAttributes)
    }

    /// A step of this one.
    /// - Parameter start: in nanoseconds since 1970; `nil`: now.
    package func child(_ name: String, kind: Kind = .internal, at start: Int64? = nil) -> Span {
        var context = context
        context.spanID = tracer.newSpanID()
        return Span(
            name, kind: kind, context: context, parentID: self.context.spanID, startedAt: start ?? tracer.now(), tracer: tracer)
    }

    package func part(_ name: String, from start: Int64) -> Span { child(name, at: start) }

    package var now: Int64 { tracer.now() }

    /// Somebody else has begun the trace.
    package var hasParent: Bool { parentID != 0 }

    private static let usualAttributes = 4
    /// In bytes: what is longer is cut, so that a queue of spans is bounded in size.
    private static let longestText = 512

    private static func cut(_ text: String) -> String {
        text.utf8.count <= longestText ? text : String(decoding: text.utf8.prefix(longestText), as: UTF8.self)
    }

    package func set(_ name: String, _ value: String) { attributes.append((name, .text(Self.cut(value)))) }

    package func set(_ name: String, _ value: Int64) { attributes.append((name, .integer(value))) }

    /// It did not come to what it was made for.
    package func fail(_ reason: String) { failure = failure ?? Self.cut(reason) }

    deinit {
        givenUp()
    }

    /// Once it has ended, what is said of it goes nowhere.
    /// - Parameter end: in nanoseconds since 1970; `nil`: now.
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
    /// On the coordinator's event loop.
    /// - Parameter parent: of the call that it is a step of.
    package convenience init(_ step: Step, _ subject: String, wait: Int64, of parent: Span, calls: CoordinatorCalls) {
        self.init(
            step, subject, wait: wait, span: parent.child(step.rawValue), askedAt: calls.now(),
            limitsAskedAt: { calls.limitsAskedAt })
    }
}
