/// The counting algorithm of a limit.
public enum LimitAlgorithm: Hashable, Sendable {
    /// A counter that starts with its first call and expires one window later. It is the cheapest algorithm, but up to
    /// twice the limit can pass around the boundary between two windows.
    case fixed
    /// A log of grants. No period as long as the window, wherever it begins, holds more than the limit.
    case sliding
    /// Evenly spaced calls, of which `burst` may come early: the generic cell rate algorithm of ITU-T I.371, as in
    /// redis-cell. No window holds more than the limit plus the burst.
    case gcra(burst: Int64)

    /// An algorithm without its parameters, by its name in the configuration.
    package enum Name: String, CaseIterable, Sendable {
        case fixed, sliding, gcra
    }

    package var name: Name {
        switch self {
        case .fixed: .fixed
        case .sliding: .sliding
        case .gcra: .gcra
        }
    }
}

extension LimitAlgorithm: DigestedSetting {
    package var digestedParts: Parts {
        if case .gcra(let burst) = self { [("gcra.burst", burst)] } else { [] }
    }
    package var digestedText: String { name.rawValue }
}

// To add an algorithm, extend `LimitAlgorithm` and, for parameters, its digest and `EffectiveConfiguration`;
// `LimitDefinition`; `DefinitionLimits`; `counters.lua`; its number in `TakeScript` and `RefundScript` (where 3 stands
// for windows of descriptors); `KeySpace`; `LocalQuota`; `RefusalMemory`; `LimitDefinition+Reading`,
// `RateLimitDomain+Reading` and `openapi.yaml`; `LimitBounds` and `HistoryRules`; load in `StandardServices` and
// `Profile`. Other switches do not compile until they are extended, but the compiler does not find these:
//
// - Code that asks whether the algorithm is `gcra`: `LimitDefinition` (`capacity`, `minimumMicroseconds`,
//   `retentionMilliseconds`, `check`), `QuotaRate`, `RefusalMemory.Refusal.earliest`,
//   `CapacitySplit.refillMicroseconds`, `ServiceLimiter.shownLimit`.
// - Code that asks whether it is `fixed`: `WindowEnds`, `LimitBatch.record`, `RefusalMemory.Refusal`
//   (`appliesToHigherCosts`), `LimitBounds`.
// - `LocalQuota.redefined`: a change of algorithm keeps what was taken, as one take.
// - The numbers 0, 1, otherwise `gcra` in `batch.lua` (and 3), `reply.lua`, `peek.lua` and `refund.lua`.
// - `StandardServices` and `Profile`: without a change they produce no load with the new algorithm.
