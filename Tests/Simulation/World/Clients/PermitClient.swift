import Hiredis
import InterlockCore
import InterlockJudge

/// Asks for permits, makes the calls, and reports what became of them; some it never reports.
final class PermitClient: ServiceClient {
    override func act() {
        let place = Int.random(in: services.indices, using: &random)
        let subject = world.profile.habits.tenant(&random)
        let wait = world.profile.habits.wait(upTo: world.profile.habits.patience, &random)
        var words = ["PERMIT.ACQUIRE", services[place]]
        if let subject { words += ["SUBJECT", "t\(subject)"] }
        if wait > 0 { words += ["WAIT", "\(wait)"] }
        let service = firstService + place
        var granted: (number: PermitNumber, id: String)?
        ask([(number, .permit(service: service, subject: subject, wait: wait))], words) { [world] reply in
            guard let parts = reply.array, parts.count == 4, let word = parts[1].text,
                let state = parts[2].text.flatMap(BreakerSnapshot.State.init), let retryAfter = parts[3].integer
            else { return [.failed(code: "?")] }
            if parts[0].integer == 1 {
                let permit = world.nextPermit()
                granted = (permit, word)
                return [.done(.permitted(permit, state: state))]
            }
            switch word {
            case "limited": return [.refused(.limited(retryAfter: retryAfter))]
            case "open": return [.refused(.open(retryAfter: retryAfter))]
            case "busy": return [.refused(.busy(retryAfter: retryAfter))]
            default: return [.refused(.other(word))]
            }
        } completion: { [self] _ in
            guard let (permit, id) = granted else { return rest() }
            call(place, permit: permit, id: id)
        }
    }

    private func call(_ place: Int, permit: PermitNumber, id: String) {
        let outcome = world.upstreams[place].call(random: &random)
        plan(after: .milliseconds(outcome.milliseconds)) { [self] in
            guard !random.happens(0.04) else { return rest() }
            var words = [
                "PERMIT.REPORT", services[place], id, outcome.isOK ? "OK" : "ERROR", "LATENCY", "\(outcome.milliseconds)",
            ]
            if let retryAfter = outcome.retryAfter { words += ["STATUS", "503", "RETRYAFTER", "\(retryAfter)"] }
            let operation = Operation.report(service: firstService + place, permit: permit, isOK: outcome.isOK)
            ask([(number, operation)], words) { reply in
                guard let state = reply.text.flatMap(BreakerSnapshot.State.init) else { return [.failed(code: "?")] }
                return [.done(.reported(state: state))]
            } completion: { [self] _ in
                rest()
            }
        }
    }
}

/// A service that is called: well most of the time, and sometimes ill or slow for a while.
struct Upstream {
    struct Outcome {
        var isOK: Bool
        var milliseconds: Int64
        var retryAfter: Int64?
    }

    /// The probability that a call fails.
    var failing = 0.01
    var isSlow = false

    func call(random: inout SeededRandom) -> Outcome {
        let isOK = !random.happens(failing)
        let milliseconds = isSlow ? Int64.random(in: 150...400, using: &random) : Int64.random(in: 1...20, using: &random)
        let asksForPause = !isOK && random.happens(0.05)
        return Outcome(
            isOK: isOK, milliseconds: milliseconds,
            retryAfter: asksForPause ? Int64.random(in: 200...2000, using: &random) : nil)
    }
}
