/// A rule of the scripts, broken on purpose: a checker that does not notice is no checker.
public enum Mutant: String, Hashable, Sendable, Codable, CaseIterable {
    /// A release frees the lock without comparing the token.
    case releaseWithoutToken = "release-without-token"
    /// A grant repeats the last fence.
    case noFence = "no-fence"
    /// A renewal extends whatever lease there is.
    case renewWithoutToken = "renew-without-token"
    /// An acquire takes the lock from its holder.
    case acquireWithoutCheck = "acquire-without-check"
    /// A release wakes nobody and the queue is never looked at again.
    case lostWakeUps = "lost-wake-ups"
    /// Writers do not wait for readers.
    case writersPassReaders = "writers-pass-readers"
    /// A semaphore has a place more than it says.
    case oneMorePlace = "one-more-place"
    /// A window's counter never lapses.
    case counterWithoutExpiry = "counter-without-expiry"
    /// A limit grants one more than it says.
    case oneMoreCall = "one-more-call"
    /// A limit is read and written in two steps.
    case lostCounts = "lost-counts"
    /// A trip does not change the generation, so nobody follows it.
    case tripWithoutGeneration = "trip-without-generation"
    /// Half-open gives trial permits to all who ask.
    case trialsWithoutBound = "trials-without-bound"
}
