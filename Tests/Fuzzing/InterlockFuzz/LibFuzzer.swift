internal import FuzzTargets
internal import Glibc

/// libFuzzer's entry point: <https://llvm.org/docs/LibFuzzer.html>. libFuzzer brings `main` and saves an input that ends the process.
@_cdecl("LLVMFuzzerTestOneInput")
public func readOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let target = ChosenTarget.target
    do throws(FuzzFinding) {
        try target.run(Array(UnsafeBufferPointer(start: bytes, count: count)))
    } catch {
        // libFuzzer learns of a finding by the end of the process.
        fatalError("\(target.rawValue): \(error)")
    }
    return 0
}

/// The target of this process.
enum ChosenTarget {
    /// A variable, because libFuzzer owns the arguments.
    private static let variable = "INTERLOCK_FUZZ_TARGET"

    static let target: FuzzTarget = {
        let name = getenv(variable).map { String(cString: $0) }
        guard let target = name.flatMap(FuzzTarget.init) else {
            let names = FuzzTarget.allCases.map(\.rawValue).joined(separator: ", ")
            // There is no caller to return an error to.
            fatalError("\(variable) is \(name ?? "not set"); expected one of \(names)")
        }
        return target
    }()
}
