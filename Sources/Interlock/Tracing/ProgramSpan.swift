internal import InterlockCore
internal import Tracing

/// A span of the program's tracer, from swift-distributed-tracing. Its name begins with `interlock.` to distinguish it
/// from the program's own spans.
final class ProgramSpan: StepSpan {
    private let tracer: any Tracer
    private let span: any Tracing.Span
    let startedAtNanoseconds: Int64

    /// Creates a span for a step within the task's current span; returns `nil` if the program has no tracer.
    convenience init?(_ name: String, kind: SpanKind = .internal) {
        // A fast path for programs that never install a tracer.
        guard !(InstrumentationSystem.instrument is NoOpInstrument) else { return nil }
        let tracer = InstrumentationSystem.tracer
        guard !(tracer is NoOpTracer) else { return nil }
        self.init(name, kind: kind, in: .current ?? .topLevel, from: Self.wallNanoseconds, tracer: tracer)
    }

    private init(
        _ name: String, kind: SpanKind, in context: InstrumentationContext, from startNanoseconds: Int64,
        tracer: any Tracer
    ) {
        self.tracer = tracer
        startedAtNanoseconds = startNanoseconds
        span = tracer.startSpan(
            "interlock." + name, context: context, ofKind: kind,
            at: Self.instant(startNanoseconds))
    }

    /// Runs `body` in a span, or without one if the program has no tracer. The span fails if `body` throws.
    /// - Parameter isolation: the isolation of `body`. The inner closure captures it, because `withValue` would
    ///   otherwise run `body` elsewhere.
    static func within<Value>(
        _ name: String, kind: SpanKind = .internal, of service: String, isolation: isolated (any Actor)? = #isolation,
        _ body: (ProgramSpan?) async throws -> Value
    ) async throws -> Value {
        guard let span = ProgramSpan(name, kind: kind) else { return try await body(nil) }
        span.set("interlock.service", service)
        defer { span.end(atNanoseconds: nil) }
        do {
            return try await InstrumentationContext.$current.withValue(span.span.context) {
                _ = isolation
                return try await body(span)
            }
        } catch {
            span.fail(with: error)
            throw error
        }
    }

    /// Records an error. The tracer decides how much to export of an error that is not Interlock's.
    private func fail(with error: any Error) {
        let refusal = error as? ServiceCallError
        guard !Task.isCancelled, !(error is CancellationError) else { return fail(StepTrace.givenUpReason) }
        span.recordError(error)
        if let refusal { fail(refusal.message) } else { span.setStatus(SpanStatus(code: .error)) }
    }

    private static var wallNanoseconds: Int64 { Int64(DefaultTracerClock.now.nanosecondsSinceEpoch) }

    private static func instant(_ nanoseconds: Int64) -> DefaultTracerClock.Timestamp {
        DefaultTracerClock.Timestamp(nanosecondsSinceEpoch: UInt64(max(0, nanoseconds)))
    }

    var nowNanoseconds: Int64 { Self.wallNanoseconds }

    func childSpan(_ name: String, fromNanoseconds startNanoseconds: Int64) -> ProgramSpan {
        ProgramSpan(name, kind: .internal, in: span.context, from: startNanoseconds, tracer: tracer)
    }

    func set(_ name: String, _ value: String) { span.attributes.set(name, value: .string(value)) }

    func set(_ name: String, _ value: Int64) { span.attributes.set(name, value: .int64(value)) }

    func fail(_ reason: String) { span.setStatus(SpanStatus(code: .error, message: reason)) }

    func end(atNanoseconds endNanoseconds: Int64?) {
        span.end(at: Self.instant(max(startedAtNanoseconds, endNanoseconds ?? nowNanoseconds)))
    }
}
