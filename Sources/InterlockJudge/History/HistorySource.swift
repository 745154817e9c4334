/// The origin of a history. Recorded only in the first line of the file.
package enum HistorySource: String, Sendable, Codable {
    /// Real processes and a real Redis.
    case run
    /// A simulated world.
    case simulation
}
