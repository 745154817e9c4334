/// A stream of random numbers that depends only on its seed, so that a run is repeatable.
///
/// Algorithm: SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
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

    /// Returns a new stream that is independent of the further numbers of this stream.
    package mutating func split() -> SeededRandom {
        SeededRandom(seed: next())
    }

    /// Returns a number uniformly distributed in 0 ..< 1.
    package mutating func unit() -> Double {
        Double(next() >> 11) * 0x1p-53
    }

    /// Returns `true` with this probability.
    package mutating func happens(_ probability: Double) -> Bool {
        unit() < probability
    }
}
