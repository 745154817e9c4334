/// Where a history comes from. Only the file's first line says so.
package enum HistorySource: String, Sendable, Codable {
    /// Real processes and a real Redis.
    case run
    /// A simulated world.
    case simulation
}
