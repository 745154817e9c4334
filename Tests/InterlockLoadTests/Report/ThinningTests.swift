import Testing

@testable import InterlockLoad

@Suite("Thinning a series")
struct ThinningTests {
    @Test("A long series keeps its maximum, its minimum and its order, and has at most the limit of points")
    func keepsExtremes() {
        var points = (0..<100_000).map { PlotLine.Point(x: Double($0), y: 50) }
        points[77_777].y = 900
        points[12_345].y = 1
        let thin = Thinning.points(points)
        #expect(thin.count <= Thinning.limit)
        #expect(thin.map(\.y).max() == 900)
        #expect(thin.map(\.y).min() == 1)
        #expect(thin.map(\.x) == thin.map(\.x).sorted())
    }

    @Test("A short series is unchanged")
    func keepsShort() {
        let points = (0..<Thinning.limit).map { PlotLine.Point(x: Double($0), y: .nan) }
        #expect(Thinning.points(points).count == points.count)
    }

    @Test("A stretch without numbers stays a gap")
    func keepsGaps() {
        let points = (0..<10_000).map { PlotLine.Point(x: Double($0), y: (2000..<3000).contains($0) ? .nan : 1) }
        let gap = Thinning.points(points).filter { !$0.y.isFinite }
        #expect(!gap.isEmpty)
        #expect(gap.allSatisfy { (2000..<3000).contains($0.x) })
    }

    @Test("The heaviest element of each stretch is kept")
    func keepsHeaviest() {
        var numbers = [Int](repeating: 1, count: 5000)
        numbers[4321] = 9
        let thin = Thinning.heaviest(numbers, limit: 10, by: <)
        #expect(thin == [1, 1, 1, 1, 1, 1, 1, 1, 9, 1])
    }
}
