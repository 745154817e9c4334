/// The CPU time and memory of a process.
package struct ProcessReport: Codable, Hashable, Sendable {
    /// The name of the process: `sidecar 1`, `redis`, `harness`.
    package var name: String
    /// The average number of cores in use.
    package var averageCores: Double
    /// The highest sample of the resident memory, in bytes.
    package var residentPeakBytes: Int
    /// The last sample of the resident memory, in bytes.
    package var residentEndBytes: Int

    package init(name: String, averageCores: Double, residentPeakBytes: Int, residentEndBytes: Int) {
        self.name = name
        self.averageCores = averageCores
        self.residentPeakBytes = residentPeakBytes
        self.residentEndBytes = residentEndBytes
    }
}
