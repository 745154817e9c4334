import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@testable import Interlock

@Suite("The arithmetic of gcra limits in scripts")
struct CellArithmeticTests {
    /// Fills limits of many shapes exactly to capacity and one unit beyond, and counts the wrong results.
    private static let sweep = """
        local wrong = 0
        for limit = 1, 30 do
          for _, window in ipairs({1000, 777000, 1000000, 60000000}) do
            for capacity = 1, 20 do
              local rest = window - math.floor(window / limit) * limit
              for units = capacity, capacity + 1 do
                local carried = math.floor(units * rest / limit)
                local value = string.format(
                  '%.0f:%.0f', 1e15 + units * math.floor(window / limit) + carried, units * rest - carried * limit)
                if open_cells(limit, window, value, 1e15, capacity, 'none').taken(capacity) ~= units then wrong = wrong + 1 end
              end
            end
          end
        end
        return wrong
        """

    @Test("A limit that is exactly full grants no call too many, however its quotient is rounded")
    func exactlyFull() async throws {
        try await Fleet.run { fleet in
            let source = String(decoding: PackageResources.counters_lua, as: UTF8.self) + Self.sweep
            let wrong = try await fleet.cli("EVAL", source, "0")
            #expect(wrong.integer == 0)
        }
    }
}
