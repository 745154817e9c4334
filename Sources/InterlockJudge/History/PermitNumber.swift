/// Identifies a permit within a run.
package typealias PermitNumber = Int64
