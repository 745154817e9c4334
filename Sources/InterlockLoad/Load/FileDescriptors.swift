internal import Interlock

/// The files and connections that a run needs.
enum FileDescriptors {
    /// - Throws: `LoadError` when fewer than `count` are allowed.
    static func provide(for count: Int) throws(LoadError) {
        guard let bound = OpenFileBound.raised(), bound < count else { return }
        throw LoadError(
            "\(count) open files are needed for so many connections, and \(bound) are allowed; raise the limit (ulimit -Hn), or use fewer --clients"
        )
    }
}
