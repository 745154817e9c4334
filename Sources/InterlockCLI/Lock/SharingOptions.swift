import ArgumentParser
import InterlockCore

/// Who else may have a lock at the same time.
struct SharingOptions: ParsableArguments {
    @Flag(help: "Share the lock with others who share it; whoever does not is kept out.")
    var shared = false

    @Option(help: ArgumentHelp("Have the lock together with others, so many holders at most.", valueName: "n"))
    var permits: Int?

    var isExclusive: Bool { !shared && permits == nil }

    func validate() throws {
        guard !shared || permits == nil else { throw ValidationError("expected one of --shared and --permits, not both") }
        guard permits.map(LockMode.places.contains) ?? true else {
            let places = LockMode.places
            throw ValidationError(
                "--permits: expected a whole number from \(places.lowerBound) to \(places.upperBound), got \(permits ?? 0)")
        }
    }

    var mode: LockMode { permits.map { .permits($0) } ?? (shared ? .shared : .exclusive) }
}
