internal import InterlockCore

/// One page of the held locks.
package struct LockPage: Hashable, Sendable {
    /// The cursor for the next page; `0` on the last page.
    package var cursor: String
    /// The names of the locks. A name can appear twice, as in any `SCAN`.
    package var names: [String]
}
