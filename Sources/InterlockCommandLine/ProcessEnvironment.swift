import Glibc

/// The environment variables of this process.
package enum ProcessEnvironment {
    package static var variables: [String: String] {
        var variables: [String: String] = [:]
        var entry = environ
        while let pointer = entry.pointee {
            let assignment = String(cString: pointer)
            if let equalsSign = assignment.firstIndex(of: "=") {
                let name = String(assignment[..<equalsSign])
                variables[name] = String(assignment[assignment.index(after: equalsSign)...])
            }
            entry += 1
        }
        return variables
    }
}
