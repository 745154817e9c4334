/// The CPU time and memory of a process.
package struct ProcessReport: Codable, Hashable, Sendable {
    /// The name of the process: `sidecar 1`, `redis`, `harness`.
    package var name: String
    /// The average number of cores in use.
    package var averageCores: Double
    /// The peak of the resident memory samples, in bytes.
    package var residentPeak: Int
    /// The resident memory at the end of the run, in bytes.
    package var residentEnd: Int

    package init(name: String, averageCores: Double, residentPeak: Int, residentEnd: Int) {
        self.name = name
        self.averageCores = averageCores
        self.residentPeak = residentPeak
        self.residentEnd = residentEnd
    }
}
