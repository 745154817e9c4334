-------------------------------------------- MODULE LimitCounters --------------------------------------------
\* The counters of rate limits: the arithmetic of counters.lua, batch.lua and refund.lua. Limit.tla has the state.
\* All times are relative to now, in ticks. A counter is a record of
\*   n     the units counted; for gcra the theoretical arrival time in Limit-ths of a tick, which is a whole number
\*   left  the ticks until its key expires; 0 if there is no key
\*   log   for a sliding window, the units granted at each age, which is below 0 after a clock was set back
\* A rule is a limit as one counter applies it: alg, window, cap (the units at once), and `length`, the ticks until a
\* window that begins now ends.
EXTENDS Integers, FiniteSets, TLC
CONSTANTS Limit,   \* the units per window
          Ages,    \* the ages in a log
          Guards   \* the safeguards in force

On(guard) == guard \in Guards
Min(a, b) == IF a < b THEN a ELSE b
Max(a, b) == IF a > b THEN a ELSE b
Up(a, b) == (a + b - 1) \div b
RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + Sum(f, S \ {x})

Empty == [n |-> 0, left |-> 0, log |-> [a \in Ages |-> 0]]
Full(r) == CASE r.alg = "gcra" -> Up(r.cap * r.window, Limit) [] r.alg = "sliding" -> r.window + 1 [] OTHER -> r.window

\* A counter as a call sees and corrects it. After a clock was set back, no counter may last longer than its limit
\* needs. `end` is the end of a fixed window that the sidecar knows. If it is plausible, the script does not use PTTL.
See(r, k, end) ==
  CASE ~On("set_back") -> k
    [] r.alg \in {"fixed", "aligned"} -> IF end \in 1..r.window THEN k ELSE [k EXCEPT !.left = Min(@, r.length)]
    [] r.alg = "gcra" -> IF k.n > r.cap * r.window THEN [k EXCEPT !.left = Min(@, Full(r))] ELSE k
    [] r.alg = "sliding" -> [k EXCEPT !.log = [a \in Ages |->
         IF a < 0 THEN 0 ELSE IF a = 0 THEN Sum(k.log, {b \in Ages : b <= 0}) ELSE k.log[a]]]
Used(r, k) == CASE r.alg = "sliding" -> Sum(k.log, Ages) [] r.alg = "gcra" -> Up(k.n, r.window) [] OTHER -> k.n
Fits(r, k, n) == Used(r, k) + n <= r.cap
\* Whether a window goes on: with the guard "keep_refunded_window" even if all its units were refunded.
Lasts(k) == k.n > 0 \/ (k.left > 0 /\ On("keep_refunded_window"))
\* The end of a fixed window that a call reports: the known one if it is plausible.
End(r, k, end) == IF ~Lasts(k) THEN r.length ELSE IF end \in 1..r.window THEN end ELSE k.left
\* The ticks until n units fit. A sliding window includes both its ends, so the caller returns one tick later.
Wait(r, k, end, n) ==
  CASE r.alg = "fixed" -> End(r, k, end)
    [] r.alg = "aligned" -> IF On("set_back") THEN r.length ELSE k.left
    [] r.alg = "gcra" -> Min(k.left, Up(k.n - (r.cap - n) * r.window, Limit))
    [] r.alg = "sliding" -> LET due == {a \in Ages : Sum(k.log, {b \in Ages : b >= a}) >= Used(r, k) + n - r.cap}
                            IN 1 + r.window - (CHOOSE a \in due : \A b \in due : a >= b)
\* A counter from which n units are taken.
Add(r, k, n) ==
  CASE r.alg = "sliding" -> [k EXCEPT !.log[0] = @ + n]
    [] r.alg = "gcra" -> [k EXCEPT !.n = @ + n * r.window, !.left = Up(k.n + n * r.window, Limit)]
    [] OTHER -> [k EXCEPT !.n = @ + n, !.left = IF Lasts(k) THEN @ ELSE r.length]
\* The `since` of a refund, relative to now: when the window ends, when the grant was, or when gcra would recover.
Since(r, k, end) == CASE r.alg = "fixed" -> end [] r.alg = "gcra" -> k.left - 1 [] OTHER -> 0
\* refund.lua: a counter to which n units are refunded. Nothing refunds to aligned windows.
Credit(r, k, n, since) ==
  CASE r.alg = "fixed" -> IF k.left > 0 /\ (On("same_window") => 2 * Max(k.left - since, since - k.left) < r.window)
                          THEN [k EXCEPT !.n = @ - Min(n, @)] ELSE k
    [] r.alg = "sliding" -> IF -since \in Ages THEN [k EXCEPT !.log[-since] = @ - Min(n, @)] ELSE k
    [] r.alg = "gcra" /\ k.left > 0 /\ since > 0 ->
         LET m == Max(k.n - n * r.window, IF On("recovered_units") THEN k.n - since * Limit ELSE 0)
         IN IF m <= 0 THEN Empty ELSE [See(r, k, 0) EXCEPT !.n = m, !.left = Min(@, Up(m, Limit))]
    [] OTHER -> k
\* A counter after d ticks of its clock; d < 0 if the clock is set back. Expired keys are deleted at once.
Shift(r, k, d) ==
  LET left == IF k.left = 0 THEN 0 ELSE Max(0, k.left - d)
      oldest == IF On("closed_window") THEN r.window ELSE r.window - 1
  IN [left |-> left, n |-> IF left = 0 THEN 0 ELSE IF r.alg = "gcra" THEN Max(0, k.n - d * Limit) ELSE k.n,
      log |-> [a \in Ages |-> IF a <= oldest /\ a - d \in Ages THEN k.log[a - d] ELSE 0]]
==============================================================================================================
