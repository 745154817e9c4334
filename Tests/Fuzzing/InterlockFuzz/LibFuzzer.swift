internal import FuzzTargets
internal import Glibc

/// Reads one input, as libFuzzer calls it: <https://llvm.org/docs/LibFuzzer.html>. It brings `main`, and keeps an input that ends
/// the process.
@_cdecl("LLVMFuzzerTestOneInput")
public func readOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let target = ChosenTarget.target
    do throws(FuzzFinding) {
        try target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        // The end of the process is how libFuzzer learns of a finding.
        fatalError("\(target.rawValue): \(error)")
    }
    return 0
}

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
