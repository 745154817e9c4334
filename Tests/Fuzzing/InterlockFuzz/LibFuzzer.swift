internal import FuzzTargets
internal import Glibc

/// libFuzzer's entry point: <https://llvm.org/docs/LibFuzzer.html>. libFuzzer provides `main`, and saves an input that
/// crashes the process.
@_cdecl("LLVMFuzzerTestOneInput")
public func readOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let target = ChosenTarget.target
    do throws(FuzzFinding) {
        try target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        // A crash is the only way to report a finding to libFuzzer.
        fatalError("\(target.rawValue): \(error)")
    }
    return 0
}

/// The target of this process, which the environment selects.
enum ChosenTarget {
    /// The name of an environment variable, because libFuzzer owns the arguments.
    private static let variable = "INTERLOCK_FUZZ_TARGET"

    static let target: FuzzTarget = {
        let name = getenv(variable).map { String(cString: $0) }
        guard let target = name.flatMap(FuzzTarget.init) else {
            let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
            // No caller could handle an error.
            fatalError("\(variable) is \(name ?? "not set"); expected one of \(names)")
        }
        return target
    }()
}
