---- MODULE BreakerWindow ----
\* The window of a breaker, and the rule by which a report opens it: breaker-window.lua and the end of
\* breaker-report.lua. A slice is <<number, calls, failures, slow>>. A window of time (c.window > 0) numbers its slices
\* from the current one, which is 0, so that no number depends on the clock. Rates are fractions, to avoid rounding.
EXTENDS BreakerScripts
NoReport == [calls |-> 0, failures |-> 0, slow |-> 0, trailing |-> 0, slices |-> 1, window |-> 0, window_calls |-> 0,
  minimum |-> 0, failure_rate |-> <<1, 1>>, slow_rate |-> <<0, 0>>, consecutive |-> 0, judge |-> FALSE]
IdleWindow == 86400000 \* a window of calls is dropped after a day without calls, in ms
AtNumber(slices, n) == LET found == {s \in slices : s[1] = n} IN
  IF found = {} THEN <<n, 0, 0, 0>> ELSE CHOOSE s \in found : TRUE
Put(slices, s) == {t \in slices : t[1] # s[1]} \cup {s}
Last(slices) == LET numbers == {s[1] : s \in slices} \cup {0} IN CHOOSE n \in numbers : \A m \in numbers : m <= n
Rounded(a, n, d) == (2 * a * n + d) \div (2 * d)
\* Spreads the sums `rest` over slices of `width` calls, starting with the slice n.
RECURSIVE Spread(_, _, _, _)
Spread(slices, n, rest, width) == IF rest[1] = 0 THEN slices ELSE
  LET full == AtNumber(slices, n)[2] >= width  s == AtNumber(slices, IF full THEN n + 1 ELSE n)
      calls == Min(rest[1], width - s[2])  failures == Rounded(rest[2], calls, rest[1])
      slow == Rounded(rest[3], calls, rest[1]) IN
  Spread(Put(slices, <<s[1], s[2] + calls, s[3] + failures, s[4] + slow>>), s[1],
         <<rest[1] - calls, rest[2] - failures, rest[3] - slow>>, width)
Ceiling(n, d) == (n + d - 1) \div d
ByCalls(slices, c) == LET width == Ceiling(c.window_calls, c.slices)  most == width * (c.slices + 1) IN
  Spread(slices, Last(slices), IF c.calls <= most THEN <<c.calls, c.failures, c.slow>>
    ELSE <<most, Rounded(c.failures, most, c.calls), Rounded(c.slow, most, c.calls)>>, width)
ByTime(slices, c) == LET s == AtNumber(slices, 0) IN
  Put(slices, <<0, s[2] + c.calls, s[3] + c.failures, s[4] + c.slow>>)
RECURSIVE Sum(_, _)
Sum(slices, i) == IF slices = {} THEN 0 ELSE LET s == CHOOSE s \in slices : TRUE IN s[i] + Sum(slices \ {s}, i)
\* The rate in thousandths, rounded. A tie may be rounded either way, because it depends on the binary fraction.
Rate(n, of, shown) == LET low == (1000 * n) \div of  rest == 2 * ((1000 * n) % of) IN
  IF rest > of \/ (rest = of /\ shown = low + 1) THEN low + 1 ELSE low
\* The window and its sums after a report; sums as the hash shows them, and exact.
Counted(r, c) == LET old == If(r.window.gen = r.h.gen, r.window.slices, {}) \* else a window of another generation
    all == IF c.window > 0 THEN ByTime(old, c) ELSE ByCalls(old, c)
    last == IF c.window > 0 THEN 0 ELSE Last(all)
    count == IF c.window > 0 THEN c.slices ELSE c.slices + 1
    kept == {s \in all : s[1] > last - count /\ s[1] <= last}
    calls == Sum(kept, 2)  failures == Sum(kept, 3)  slow == Sum(kept, 4)
    lifetime == IF c.window > 0 THEN c.window + Max(1, c.window \div c.slices) ELSE IdleWindow IN
  [window |-> [gen |-> r.h.gen, left |-> lifetime, slices |-> kept], exact |-> <<calls, failures, slow>>,
   sums |-> [calls |-> calls, failed |-> Rate(failures, calls, c.shown.failed),
             slow |-> Rate(slow, calls, c.shown.slow), run |-> c.trailing + If(c.failures = c.calls, r.h.sums.run, 0)]]
\* The cause for which the sums open the breaker, or "none".
AtRate(n, calls, rate) == rate[2] > 0 /\ n * rate[2] >= rate[1] * calls
Trips(counted, c) == LET calls == counted.exact[1] IN
  IF ~c.judge THEN "none"
  ELSE IF calls >= c.minimum /\ AtRate(counted.exact[2], calls, c.failure_rate) THEN "failures"
  ELSE IF calls >= c.minimum /\ AtRate(counted.exact[3], calls, c.slow_rate) THEN "slow"
  ELSE IF c.consecutive > 0 /\ counted.sums.run >= c.consecutive THEN "consecutive" ELSE "none"
====
