/// How many commands Redis received from the fleet, by the sidecars' own counts: a script is one, whatever it calls. Redis'
/// own counts hold the calls inside scripts too.
struct RedisCommandMeter: Sendable {
    private struct Count: Sendable {
        /// Of processes that were this sidecar before.
        var earlier = 0
        var first: Int
        var last: Int
        var process: Int32
    }

    private var counts: [Int: Count] = [:]

    /// What a sidecar said now. A process that has taken another's place counts from 0.
    mutating func counted(_ commands: Int, sidecar: Int, process: Int32) {
        guard var count = counts[sidecar] else {
            counts[sidecar] = Count(first: commands, last: commands, process: process)
            return
        }
        if count.process != process || commands < count.last {
            count.earlier += count.last - count.first
            count.first = 0
            count.process = process
        }
        count.last = commands
        counts[sidecar] = count
    }

    /// Since the first counts; `nil`: no sidecar told. What a sidecar that was killed sent after its last count, up to a
    /// second's worth, is missing.
    var commands: Double? {
        counts.isEmpty ? nil : Double(counts.values.reduce(0) { $0 + $1.earlier + $1.last - $1.first })
    }
}
