internal import InterlockCore

/// One step through the names of the locks that are held.
package struct LockPage: Hashable, Sendable {
    /// Hand it in for the next step; `0`: this was the last.
    package var cursor: String
    /// May name a lock twice, as any `SCAN` may.
    package var names: [String]
}
