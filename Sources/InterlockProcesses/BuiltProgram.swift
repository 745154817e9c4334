internal import FoundationEssentials

/// A program of this package, built together with the running tests.
package enum BuiltProgram {
    /// Finds a program beside the test's own, or up to three folders above it, where tests are bundled.
    /// - Throws: `BuiltProgramError` if it is not built.
    package static func path(_ name: String) throws -> String {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        var folder = own[..<(own.lastIndex(of: "/") ?? own.startIndex)]
        for _ in 0..<4 {
            let candidate = folder + "/" + name
            if FileManager.default.isExecutableFile(atPath: String(candidate)) { return String(candidate) }
            guard let slash = folder.lastIndex(of: "/") else { break }
            folder = folder[..<slash]
        }
        throw BuiltProgramError(reason: "found no program \(name) near \(own); build it first")
    }
}

/// The error for a program that is not built.
package struct BuiltProgramError: Error, CustomStringConvertible {
    package var reason: String
    package var description: String { reason }
}
