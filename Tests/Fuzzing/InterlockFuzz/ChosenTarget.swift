internal import FuzzTargets
internal import Glibc

/// What this execution is fed to.
enum ChosenTarget {
    /// libFuzzer has the arguments to itself.
    private static let variable = "INTERLOCK_FUZZ_TARGET"

    static let target: FuzzTarget = {
        let name = getenv(variable).map { String(cString: $0) }
        guard let target = name.flatMap(FuzzTarget.init) else {
            let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
            // libFuzzer has the command line, and calls nothing that could hand an error back.
            fatalError("\(variable) is \(name ?? "not set"); expected one of \(names)")
        }
        return target
    }()
}
