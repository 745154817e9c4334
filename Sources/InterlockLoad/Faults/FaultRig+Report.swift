internal import InterlockJudge
internal import InterlockCore

extension FaultRig.Outcome {
    /// - Parameter recoveries: after how many ms every sidecar served again, by the fault's number.
    func reports(recoveries: [Int: Int64]) -> [FaultReport] {
        faults.map { fault in
            var fault = fault
            fault.recoveredAfter = recoveries[fault.number].map { Double($0) / 1000 }
            return fault
        }
    }
}

extension CheckReport {
    /// With what the fault rig found broken for good.
    func adding(_ found: [Violation]) -> CheckReport {
        var report = self
        report.violations += found
        report.violationCount += found.count
        return report
    }

    /// With the times of violations from the beginning of the run, as those of its faults are.
    func counted(from start: Instant) -> CheckReport {
        var report = self
        for place in report.violations.indices {
            report.violations[place].at = Instant(nanoseconds: report.violations[place].at.nanoseconds - start.nanoseconds)
        }
        return report
    }
}
