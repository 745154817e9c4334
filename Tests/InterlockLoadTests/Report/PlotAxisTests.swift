import Testing

@testable import InterlockLoad

@Suite("Axes of a plot")
struct PlotAxisTests {
    @Test("A count axis starts at 0 and ends at a tick")
    func countAxisStartsAt0AndEndsAtTick() {
        let axis = PlotAxis(label: "", unit: .number, showing: [37, 940])
        #expect(axis.domain == 0...1000)
        #expect(axis.ticks == [0, 200, 400, 600, 800, 1000])
    }

    @Test("A time axis ends with the run")
    func timeAxisEndsWithRun() {
        let axis = PlotAxis(label: "", unit: .seconds, showing: [0, 95], isExact: true)
        #expect(axis.domain == 0...95)
        #expect(axis.ticks == [0, 20, 40, 60, 80])
    }

    @Test("Long times have ticks at whole minutes")
    func longTimesHaveTicksAtWholeMinutes() {
        let axis = PlotAxis(label: "", unit: .seconds, showing: [0, 1800], isExact: true)
        #expect(axis.ticks.map(axis.unit.tick) == ["0s", "5m", "10m", "15m", "20m", "25m", "30m"])
    }

    @Test("A logarithmic axis has ticks at the powers of ten")
    func logarithmicAxisHasTicksAtPowersOfTen() {
        let axis = PlotAxis(label: "", unit: .microseconds, scale: .logarithmic, showing: [85, 1_200_000])
        #expect(axis.domain == 50...2_000_000)
        #expect(axis.ticks.map(axis.unit.tick) == ["100µs", "1ms", "10ms", "100ms", "1s"])
    }

    @Test("A short logarithmic axis also has ticks at 2 and 5")
    func shortLogarithmic() {
        let axis = PlotAxis(label: "", unit: .microseconds, scale: .logarithmic, showing: [150, 450])
        #expect(axis.ticks == [100, 200, 500])
    }

    @Test("Equal ratios are equally far apart on a logarithmic axis")
    func equalRatiosAreEquallyFarApartOnLogarithmicAxis() {
        let axis = PlotAxis(label: "", unit: .number, scale: .logarithmic, showing: [1, 100])
        #expect(axis.position(of: 10) == 0.5)
    }

    @Test("Percentiles have the positions of an HDR plot")
    func percentilesHavePositionsOfHDRPlot() {
        #expect([1, 2, 10, 100, 1000, 100_000].map(AxisUnit.percentile.tick) == ["0%", "50%", "90%", "99%", "99.9%", "99.999%"])
    }

    @Test("Values that an axis cannot show have no position on it", arguments: [Double.nan, .infinity, -.infinity, 1e300])
    func oddValues(value: Double) {
        #expect(PlotAxis(label: "", unit: .number, showing: [1, value]).position(of: value) == nil)
        #expect(PlotAxis(label: "", unit: .number, scale: .logarithmic, showing: [1, value]).position(of: value) == nil)
    }

    @Test("0 has no position on a logarithmic axis")
    func zero() {
        #expect(PlotAxis(label: "", unit: .number, scale: .logarithmic, showing: [0, 10]).position(of: 0) == nil)
    }

    @Test(
        "An axis always has a non-empty domain and a few ticks",
        arguments: [[], [0], [5], [-5], [.nan], [1e14], [1e14, 1e14 + 1], [1e-8], [-1e14, 1e14], [0.1, 0.1 + 1e-12]],
        [PlotAxis.Scale.linear, .logarithmic])
    func alwaysDrawable(values: [Double], scale: PlotAxis.Scale) {
        for isExact in [true, false] {
            let axis = PlotAxis(label: "", unit: .number, scale: scale, showing: values, isExact: isExact)
            #expect(axis.domain.lowerBound < axis.domain.upperBound)
            #expect((1...20).contains(axis.ticks.count))
        }
    }
}
