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
    package let startedAtNanoseconds: Int64
    private var attributes: [(name: String, value: Value)] = []
    private var failure: String?
    private var isEnded = false

    init(
        _ name: String, kind: Kind, context: TraceContext, parentID: UInt64, startedAtNanoseconds: Int64, tracer: Tracer
    ) {
        self.name = name
        self.kind = kind
        self.context = context
        self.parentID = parentID
        self.startedAtNanoseconds = startedAtNanoseconds
        self.tracer = tracer
        attributes.reserveCapacity(Self.expectedAttributes)
    }

    /// Begins a step within this one.
    /// - Parameter startNanoseconds: the start, as Unix time in nanoseconds; `nil` means the current time.
    package func child(_ name: String, kind: Kind = .internal, startNanoseconds: Int64? = nil) -> Span {
        var context = context
        context.spanID = tracer.newSpanID()
        return Span(
            name, kind: kind, context: context, parentID: self.context.spanID,
            startedAtNanoseconds: startNanoseconds ?? tracer.now(), tracer: tracer)
    }

    package func childSpan(_ name: String, fromNanoseconds startNanoseconds: Int64) -> Span {
        child(name, startNanoseconds: startNanoseconds)
    }

    package var nowNanoseconds: Int64 { tracer.now() }

    /// Whether the span continues a trace. Its parent is then the caller's span or another span of this sidecar.
    package var hasParent: Bool { parentID != 0 }

    private static let expectedAttributes = 4
    /// The maximum length of a text, in bytes. Longer texts are truncated to limit the size of the queue.
    private static let maximumTextBytes = 512

    private static func truncated(_ text: String) -> String {
        text.utf8.count <= maximumTextBytes ? text : String(decoding: text.utf8.prefix(maximumTextBytes), as: UTF8.self)
    }

    package func set(_ name: String, _ value: String) { attributes.append((name, .text(Self.truncated(value)))) }

    package func set(_ name: String, _ value: Int64) { attributes.append((name, .integer(value))) }

    /// Marks the step as failed, unless that has happened already.
    package func fail(_ reason: String) { failure = failure ?? Self.truncated(reason) }

    deinit {
        abandon()
    }

    /// Ends the span and queues it. Later changes have no effect.
    /// - Parameter endNanoseconds: the end, as Unix time in nanoseconds; `nil` means the current time.
    package func end(atNanoseconds endNanoseconds: Int64? = nil) {
        guard !isEnded else { return }
        isEnded = true
        tracer.queue.push(
            FinishedSpan(
                context: context, parentID: parentID, name: name, kind: kind,
                startedAtNanoseconds: startedAtNanoseconds,
                endedAtNanoseconds: max(startedAtNanoseconds, endNanoseconds ?? tracer.now()),
                attributes: attributes, failure: failure))
    }
}

extension StepTrace {
    /// Begins the span of a step. Must be called on the coordinator's event loop.
    /// - Parameters:
    ///   - waitMilliseconds: the maximum wait that the caller permits.
    ///   - parent: the span of the call that the step belongs to.
    package convenience init(
        _ step: Step, _ resourceName: String, waitMilliseconds: Int64, of parent: Span,
        coordinator: LoopBoundCoordinator
    ) {
        self.init(
            step, resourceName, waitMilliseconds: waitMilliseconds, span: parent.child(step.rawValue),
            requestedAt: coordinator.now(),
            lastLimitRequest: { coordinator.limitsRequestedAt })
    }
}
