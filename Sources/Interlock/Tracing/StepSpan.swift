internal import InterlockCore

/// A span of a traced step. A sidecar exports its spans itself; in a program that embeds a coordinator, the program's
/// tracer does.
package protocol StepSpan: AnyObject {
    /// The start time as Unix time in nanoseconds, the unit of all times here.
    var startedAt: Int64 { get }
    var now: Int64 { get }
    /// Returns a span for a part of this step that began at `start`.
    func childSpan(_ name: String, from start: Int64) -> Self
    func set(_ name: String, _ value: String)
    func set(_ name: String, _ value: Int64)
    /// Marks the step as failed.
    func fail(_ reason: String)
    /// Ends the span.
    /// - Parameter end: the end time; `nil` means the current time.
    func end(at end: Int64?)
}

extension StepSpan {
    /// Ends the span of a step whose caller no longer wants the answer.
    package func abandon() {
        fail(StepTrace.givenUpReason)
        end(at: nil)
    }
}
