internal import FoundationEssentials

/// A program of this package, built together with the running tests.
package enum BuiltProgram {
    /// Finds a program in the directory of the test executable, or in one of the three directories above it, because
    /// tests may be in a bundle.
    /// - Throws: `BuiltProgramError` if it is not built.
    package static func path(_ name: String) throws -> String {
        let ownPath = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        var folder = ownPath[..<(ownPath.lastIndex(of: "/") ?? ownPath.startIndex)]
        for _ in 0..<4 {
            let candidate = folder + "/" + name
            if FileManager.default.isExecutableFile(atPath: String(candidate)) { return String(candidate) }
            guard let slash = folder.lastIndex(of: "/") else { break }
            folder = folder[..<slash]
        }
        throw BuiltProgramError(reason: "found no program \(name) near \(ownPath); build it first")
    }
}

/// The error for a program that is not built.
package struct BuiltProgramError: Error, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }
}
