import FoundationEssentials
import FuzzTargets
import Testing

/// The inputs that the fuzzer starts from, including every input that ever broke a promise.
@Suite("Fuzzing: the corpus")
struct CorpusTests {
    struct Input: CustomTestStringConvertible, Sendable {
        let target: FuzzTarget
        let path: String

        var testDescription: String { path.split(separator: "/").suffix(2).joined(separator: "/") }
    }

    private static let folder =
        #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        + "/Tests/Fuzzing/Corpus"

    private static func inputs(of target: FuzzTarget) -> [Input] {
        let folder = "\(folder)/\(target.rawValue)"
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.sorted().map { Input(target: target, path: "\(folder)/\($0)") }
    }

    @Test("Every input keeps the promises of its parser", arguments: FuzzTarget.allCases.flatMap(inputs))
    func everyInputKeepsPromisesOfParser(input: Input) throws {
        try input.target.run([UInt8](Data(contentsOf: URL(filePath: input.path))))
    }

    @Test("Every target has at least ten inputs", arguments: FuzzTarget.allCases)
    func everyTargetHasAtLeastTenInputs(target: FuzzTarget) {
        #expect(Self.inputs(of: target).count >= 10)
    }
}
