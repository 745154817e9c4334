/// A stream of numbers that a seed decides wholly, so that a run can be had again.
///
/// SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Another stream, independent of what is drawn from this one afterwards.
    package mutating func split() -> SeededRandom {
        SeededRandom(seed: next())
    }

    /// Evenly spread over 0 ..< 1.
    package mutating func unit() -> Double {
        Double(next() >> 11) * 0x1p-53
    }

    /// Whether an event of this probability happens.
    package mutating func happens(_ probability: Double) -> Bool {
        unit() < probability
    }
}
