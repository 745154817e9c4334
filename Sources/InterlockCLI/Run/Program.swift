import ArgumentParser
import Glibc

/// A program, and where it lies.
struct Program: Sendable {
    /// As it was called.
    var name: String
    var path: String

    /// Where programs are looked for when there is no `PATH`.
    private static let standardPath = "/usr/local/bin:/usr/bin:/bin"

    private enum Standing {
        case executable
        case notExecutable(String)
        case absent
    }

    /// Looks a program up as `execvp` does: a name with a slash is a path, others are looked for on the `PATH`.
    /// - Throws: `Failure` with the exit codes that shells have for it.
    static func find(
        _ name: String, searchPath: String? = ProcessEnvironment.variables["PATH"]
    ) throws(Failure) -> Program {
        var reason: String?
        for path in candidates(for: name, searchPath: searchPath ?? standardPath) {
            switch standing(of: path) {
            case .executable: return Program(name: name, path: path)
            case .notExecutable(let why): reason = reason ?? "\(path) \(why)"
            case .absent: break
            }
        }
        if let reason { throw Failure("cannot execute \(name): \(reason)", exitCode: .notExecutable) }
        throw Failure(
            "cannot execute \(name): there is no such program\(name.contains("/") ? "" : " on the PATH")", exitCode: .notFound)
    }

    private static func candidates(for name: String, searchPath: String) -> [String] {
        if name.isEmpty { return [] }
        if name.contains("/") { return [name] }
        return searchPath.split(separator: ":", omittingEmptySubsequences: false).map { folder in
            // An empty part is the working directory.
            folder.isEmpty ? "./\(name)" : "\(folder)/\(name)"
        }
    }

    private static func standing(of path: String) -> Standing {
        var status = stat()
        guard stat(path, &status) == 0 else {
            return errno == EACCES ? .notExecutable("may not be looked at") : .absent
        }
        if status.st_mode & S_IFMT == S_IFDIR { return .notExecutable("is a folder") }
        return access(path, X_OK) == 0 ? .executable : .notExecutable("is not executable")
    }
}
