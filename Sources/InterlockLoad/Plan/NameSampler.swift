internal import Glibc
package import InterlockCore

/// Draws the numbers of names, where 0 is the most frequent name. Takes constant memory and, on average, constant time.
///
/// Draws from Zipf's law by rejection-inversion: Hörmann and Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM Transactions on Modeling and Computer Simulation 6 (1996).
package struct NameSampler: Sendable {
    /// The maximum number of names.
    package static let maximumNames = 10_000_000
    /// The maximum useful exponent. With a higher exponent, practically every draw is the first name.
    package static let maximumExponent = 20.0

    private enum Distribution: Sendable {
        case uniform
        case zipf(Zipf)
    }

    /// The number of names.
    package let count: Int
    private let distribution: Distribution

    /// Creates a sampler.
    /// - Parameter count: the number of names, from 1 to `maximumNames`.
    package init(among count: Int, skew: NameSkew) {
        precondition((1...Self.maximumNames).contains(count), "a run needs 1 to \(Self.maximumNames) names")
        self.count = count
        distribution =
            switch skew {
            case .uniform: .uniform
            case .zipf(let exponent): .zipf(Zipf(count: count, exponent: exponent))
            }
    }

    /// Returns a number in `0 ..< count`.
    package func next(using random: inout SeededRandom) -> Int {
        switch distribution {
        case .uniform: Int(random.unit() * Double(count))
        case .zipf(let zipf): zipf.next(using: &random) - 1
        }
    }
}

/// Draws numbers from 1 whose frequencies fall by a power law. As in the paper, `h` is the frequency, extended to real
/// numbers. `integral` is the integral of `h`.
private struct Zipf: Sendable {
    private let count: Double
    private let exponent: Double
    private let firstArea: Double
    private let lastArea: Double
    /// The distance below a whole number within which a point is accepted without evaluating `h`.
    private let acceptanceBound: Double

    init(count: Int, exponent: Double) {
        precondition(exponent > 0, "the exponent of Zipf's law must be above 0")
        self.count = Double(count)
        self.exponent = exponent
        firstArea = Self.integral(1.5, exponent) - 1
        lastArea = Self.integral(Double(count) + 0.5, exponent)
        acceptanceBound = 2 - Self.inverse(Self.integral(2.5, exponent) - Self.h(2, exponent), exponent)
    }

    func next(using random: inout SeededRandom) -> Int {
        while true {
            let area = lastArea + random.unit() * (firstArea - lastArea)
            let point = Self.inverse(area, exponent)
            let candidate = min(max((point + 0.5).rounded(.down), 1), count)
            if candidate - point <= acceptanceBound
                || area >= Self.integral(candidate + 0.5, exponent) - Self.h(candidate, exponent)
            {
                return Int(candidate)
            }
        }
    }

    private static func h(_ x: Double, _ exponent: Double) -> Double { exp(-exponent * log(x)) }

    private static func integral(_ x: Double, _ exponent: Double) -> Double {
        let logarithm = log(x)
        return relativeExponential((1 - exponent) * logarithm) * logarithm
    }

    private static func inverse(_ area: Double, _ exponent: Double) -> Double {
        // Rounding could otherwise produce an argument outside the domain of the logarithm.
        exp(relativeLogarithm(max(-1, area * (1 - exponent))) * area)
    }

    /// Returns (eˣ − 1) ÷ x. It is accurate near 0, which matters if the exponent is near 1.
    private static func relativeExponential(_ x: Double) -> Double {
        abs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2
    }

    /// Returns ln(1 + x) ÷ x. It is accurate near 0.
    private static func relativeLogarithm(_ x: Double) -> Double {
        abs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2
    }
}
