import Foundation

extension Int {
    func power(_ exponent: Double) -> Double { pow(Double(self), exponent) }
}
