internal import InterlockCore

/// A span of a traced step. A sidecar exports its own spans. In a program that embeds a coordinator, the program's
/// tracer exports them.
package protocol StepSpan: AnyObject {
    /// The start time, as Unix time in nanoseconds. All times of this protocol have this unit.
    var startedAtNanoseconds: Int64 { get }
    /// The current time.
    var nowNanoseconds: Int64 { get }
    /// Returns a span for a part of this step.
    /// - Parameter startNanoseconds: the time at which the part began.
    func childSpan(_ name: String, fromNanoseconds startNanoseconds: Int64) -> Self
    /// Sets an attribute of the span.
    func set(_ name: String, _ value: String)
    /// Sets an attribute of the span.
    func set(_ name: String, _ value: Int64)
    /// Marks the step as failed.
    func fail(_ reason: String)
    /// Ends the span.
    /// - Parameter endNanoseconds: the end time; `nil` for the current time.
    func end(atNanoseconds endNanoseconds: Int64?)
}

extension StepSpan {
    /// Ends the span of a step whose caller no longer wants the answer.
    package func abandon() {
        fail(StepTrace.givenUpReason)
        end(atNanoseconds: nil)
    }
}
