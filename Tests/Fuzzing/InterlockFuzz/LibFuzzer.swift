internal import FuzzTargets

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
