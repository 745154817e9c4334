import Dispatch

/// Where the process begins.
@main
enum InterlockProgram {
    /// `RunChild` stays on the thread that the process began on: what the kernel was asked to do when a process dies, it was
    /// asked for one thread, and only that one can execute the command without forgetting it. Everything else is
    /// asynchronous, and leaves that thread.
    static func main() {
        if CommandLine.arguments.dropFirst().first == RunChild.name {
            InterlockCommand.main(synchronously: RunChild.self)
        }
        Task { await InterlockCommand.main() }
        dispatchMain()
    }
}
