/// The steps that follow from one input.
package struct GateSteps {
    /// The steps to take first: those of other calls, refunds and timers.
    package var before: [GateStep] = []
    /// The next step of the call itself; `nil` if there is none yet.
    package var next: GateStep?
}
