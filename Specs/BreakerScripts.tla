---- MODULE BreakerScripts ----
\* The scripts of a circuit breaker, Sources/Interlock/Breakers/breaker-NAME.lua, each of which Redis runs as one step.
\* Each operator maps the state r of the keys and a call c to the new state, the result, and the log of changes: [on:
\* the generation acted on, gen: the new one, st, cause]. Times are those that remain at the call, in any unit. The
\* module Breaker specifies how sidecars use the scripts; BreakerTrace checks recorded calls.
EXTENDS Integers, Sequences, FiniteSets
CONSTANT Guards \* the safeguards in force
G(guard) == guard \in Guards  If(p, a, b) == IF p THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b  Max(a, b) == IF a > b THEN a ELSE b
Any == -1073741824  NoEnd == Any  Unknown == Any - 1 \* no expectation; a state without an end; an end not passed
\* The keys. h is the hash, with the ends left, fleft of the open time and the forced state; ok counts the successful
\* trials. trials and votes map the name of a permit or vote to its time; 0: none. A vote's name is <<cause, sidecar>>.
NoSums == [calls |-> 0, failed |-> 0, slow |-> 0, run |-> 0]  NoWindow == [gen |-> 0, left |-> 0, slices |-> {}]
NoHash == [st |-> "closed", cause |-> "none", gen |-> 0, left |-> NoEnd, forced |-> "no", fleft |-> NoEnd, streak |-> 0,
           since |-> 0, trips |-> 0, lapse |-> 0, by |-> "", reason |-> "", sums |-> NoSums]
NoKeys(permits, voters) == [h |-> NoHash, ok |-> 0, digest |-> "", window |-> NoWindow, old |-> FALSE,
  trials |-> [i \in permits |-> 0], votes |-> [v \in voters |-> 0]]
Off(f) == [i \in DOMAIN f |-> 0]  Going(f) == {i \in DOMAIN f : f[i] > 0}
IsOutage(v) == v[1] = "outage"  Votes(f, outage) == {v \in Going(f) : IsOutage(v) = outage}
Count(f, outage) == Cardinality({v[2] : v \in Votes(f, outage)}) \* sidecars
Drop(f, outage) == [v \in DOMAIN f |-> If(IsOutage(v) = outage, 0, f[v])]
\* A call with defaults only. It has the fields of the JSON object, with random in thousandths, and clock: Redis's clock
\* for generations; shown: numbers in the new state that depend on a random number or on rounding, which the scripts
\* must keep within limits.
NoCall == [expect |-> Any, at_least |-> Any, clock |-> 0, random |-> 0,
  shown |-> [open |-> 0, failed |-> 0, slow |-> 0], by |-> "", origin |-> "", over |-> FALSE, until |-> Unknown,
  until_to |-> Unknown, forced_over |-> FALSE, forced_until |-> Unknown, forced_until_to |-> Unknown, open_min |-> 0,
  open_max |-> 0, retry_after |-> 0, pause |-> -1, longest |-> 0, cause |-> "none", reason |-> "", lapse |-> 0,
  reporters |-> 0, id |-> "", permits |-> 0, lifetime |-> 0, outcome |-> "", quorum |-> 0, seconds |-> FALSE,
  trial |-> FALSE, state |-> "", for |-> NoEnd, knows |-> FALSE, known |-> NoHash, digest |-> "", declares |-> FALSE]
\* breaker.lua. In each script, w is [r, log]: the state and the changes so far.
Begun(r) == [r |-> r, log |-> <<>>]  Done(w, result) == [r |-> w.r, log |-> w.log, result |-> result]
Expected(w, c) == G("expected_generation") => c.expect \in {Any, w.r.h.gen}
AtLeast(w, c) == G("at_least") => w.r.h.gen >= c.at_least
Forced(w) == G("forced") /\ w.r.h.forced # "no"  May(w, c) == Expected(w, c) /\ ~Forced(w)
On(w, c) == [c EXCEPT !.expect = w.r.h.gen]
\* breaker-change.lua. The new hash is h, except for the fields that every change sets.
NextGen(gen, c) == Max(gen + 1 + c.random, c.clock)
Change(w, c, h) == LET old == w.r.h  g == NextGen(old.gen, c)  closed == h.st = "closed" IN
  [r |-> [w.r EXCEPT !.ok = 0, !.window = NoWindow, !.old = FALSE, !.trials = Off(@), !.votes = Drop(@, FALSE),
     !.h = [h EXCEPT !.gen = g, !.since = 0, !.by = c.by, !.streak = If(closed, 0, @),
       !.trips = If(h.st = "open" /\ old.st # "open", @ + 1, @), !.sums = If(closed, NoSums, [@ EXCEPT !.run = 0])]],
   log |-> Append(w.log, [on |-> c.expect, gen |-> g, st |-> h.st, cause |-> h.cause])]
New(h, st, cause, left, reason) ==
  [h EXCEPT !.st = st, !.cause = cause, !.left = left, !.reason = reason, !.forced = "no", !.fleft = NoEnd]
To(w, c, st, cause, left, reason) == Change(w, c, New(w.r.h, st, cause, left, reason))
Half(w, c) == To(w, c, "half_open", w.r.h.cause, NoEnd, w.r.h.reason)
\* breaker-open.lua. The random number adds up to a tenth; the call shows it in thousandths.
RECURSIVE Doubled(_, _, _)
Doubled(p, times, most) == IF times = 0 \/ p >= most THEN Min(p, most) ELSE Doubled(2 * p, times - 1, most)
Part(d, n, of) == (d \div of) * n + ((d % of) * n) \div of
Range(p, d, c, of) == [least |-> p + Part(d, c.random, of), most |-> p + Part(d, c.random + 1, of) + 1]
OpenTime(w, c, cause) ==
  IF c.pause >= 0 THEN LET t == Range(c.pause, c.pause, c, 10000) IN
    [least |-> Min(c.longest, t.least), most |-> Min(c.longest, t.most)]
  ELSE IF cause = "limit" THEN Range(c.open_min, c.open_max - c.open_min, c, 1000)
  ELSE LET p == Doubled(c.open_min, w.r.h.streak, c.open_max)  t == Range(p, p, c, 10000)
           at(n) == Max(c.retry_after, Min(c.open_max, n)) IN [least |-> at(t.least), most |-> at(t.most)]
Open(w, c, cause) == LET t == OpenTime(w, c, cause)  left == Max(t.least, Min(t.most, c.shown.open)) IN
  IF c.pause >= 0 THEN To(w, c, "open", "retry_after", left, "")
  ELSE IF cause = "limit" THEN To(w, c, "open", cause, left, "")
  ELSE Change(w, c, [New(w.r.h, "open", cause, left, "") EXCEPT !.streak = @ + 1])
\* breaker-ends.lua. A call passes the ends that its sidecar knows, and the corrected ends after Redis's clock jumped.
Over(end, over, until, to) == over /\ end \in {until, to}
Due(r, c) == Over(r.h.left, c.over, c.until, c.until_to) \/ r.h.left = NoEnd
Corrected(end, until, to) == to # Unknown /\ until = end
Ahead(r, c) == \* the clock was set back, so that the state began in the future
  LET h == r.h  moved(end) == If(end = NoEnd, end, end - h.since)
      left == If(h.cause = "outage" /\ h.lapse > 0 /\ h.left # NoEnd, Min(moved(h.left), h.lapse), moved(h.left)) IN
  IF h.since <= 0 THEN r ELSE [r EXCEPT !.trials = Off(@), !.votes = Off(@), !.h.since = 0,
    !.h.left = If(Corrected(@, c.until, c.until_to), @, left),
    !.h.fleft = If(Corrected(@, c.forced_until, c.forced_until_to), @, moved(@))]
Correct(r, c) == LET moved == Ahead(r, c) IN
  [moved EXCEPT !.h.left = If(Corrected(r.h.left, c.until, c.until_to), c.until_to, @),
                !.h.fleft = If(Corrected(r.h.fleft, c.forced_until, c.forced_until_to), c.forced_until_to, @)]
Ends(r, c) == LET w == Begun(Correct(r, c)) IN
  If(r.h.forced # "no" /\ Over(r.h.fleft, c.forced_over, c.forced_until, c.forced_until_to),
     To(w, On(w, c), "closed", "auto", NoEnd, ""), w)
\* The scripts.
Lost(r, c) == G("restore") /\ c.knows /\ (G("newer_only") => c.known.gen > r.h.gen)
SyncScript(r, c) ==
  LET known == [c.known EXCEPT !.lapse = r.h.lapse, !.streak = If(G("restore_streak"), @, 0)]
      w == Ends(IF Lost(r, c) THEN [r EXCEPT !.h = known, !.ok = 0] ELSE r, c) IN
  Done(If(c.digest # "" /\ (c.declares \/ w.r.digest = ""), [w EXCEPT !.r.digest = c.digest], w), 1)
\* counted: the window and the sums after the report; cause: the reason for which they open the breaker, or "none".
ReportScript(r, c, counted, cause) == LET w == Ends(r, c)
    counts == Expected(w, c) /\ (~Forced(w) \/ w.r.h.forced = "disabled") /\ w.r.h.st = "closed"
    v == [w EXCEPT !.r.window = counted.window, !.r.h.sums = counted.sums] IN
  IF ~counts THEN Done(w, 0) ELSE IF Forced(w) \/ cause = "none" THEN Done(v, 0) ELSE Done(Open(v, c, cause), 1)
VoteScript(r, c) == LET w == Ends(r, c)  v == [w EXCEPT !.r.votes[<<c.cause, c.origin>>] = c.lapse] IN
  IF ~May(w, c) \/ w.r.h.st # "closed" THEN Done(w, 0)
  ELSE IF Count(v.r.votes, FALSE) < c.reporters THEN Done(v, 0) ELSE Done(Open(v, c, c.cause), 1)
TripScript(r, c) == LET w == Ends(r, c) IN
  IF ~May(w, c) \/ w.r.h.st = "open" THEN Done(w, 0) ELSE Done(Open(w, c, c.cause), 1)
HalfOpenScript(r, c) == LET w == Ends(r, c) IN
  IF ~May(w, c) \/ w.r.h.st # "open" \/ ~Due(r, c) THEN Done(w, 0) ELSE Done(Half(w, c), 1)
TrialScript(r, c) ==
  LET w == Ends(r, c)  v == If(w.r.h.st = "open" /\ Due(r, c), Half(w, On(w, c)), w)
      \* After the clock was set back, no permit lasts longer than its lifetime.
      kept == [i \in DOMAIN v.r.trials |-> If(v.r.trials[i] \in 1..c.lifetime, v.r.trials[i], 0)]
      u == [v EXCEPT !.r.trials = kept] IN
  IF ~May(w, c) \/ ~AtLeast(w, c) THEN Done(w, 0)
  ELSE IF v.r.h.st # "half_open" THEN Done(v, If(v.r.h.st = "closed", 1, 0))
  ELSE IF v.r.ok >= c.permits THEN Done(To(v, On(v, c), "closed", "trials", NoEnd, ""), 1)
  ELSE IF Cardinality(Going(kept)) + v.r.ok >= c.permits THEN Done(u, 0)
  ELSE Done([u EXCEPT !.r.trials[c.id] = c.lifetime], 1)
OutcomeScript(r, c) == LET w == Ends(r, c)  v == [w EXCEPT !.r.trials[c.id] = 0] IN
  IF ~May(w, c) \/ w.r.h.st # "half_open" \/ w.r.trials[c.id] = 0 THEN Done(w, 0)
  ELSE Done(IF c.outcome = "error" \/ c.pause >= 0 THEN Open(v, c, "failures") ELSE IF c.outcome # "ok" THEN v
            ELSE If(v.r.ok + 1 < c.permits, [v EXCEPT !.r.ok = @ + 1], To(v, c, "closed", "trials", NoEnd, "")), 1)
CloseScript(r, c) == LET w == Ends(r, c)  over == w.r.h.st = "half_open" \/ (w.r.h.st = "open" /\ Due(r, c)) IN
  IF May(w, c) /\ w.r.h.st # "closed" /\ (c.cause = "auto" \/ (over /\ w.r.h.cause = c.cause))
  THEN Done(To(w, c, "closed", c.cause, NoEnd, ""), 1) ELSE Done(w, 0)
DownScript(r, c) == LET w == Ends(r, c)  second == c.seconds /\ Count(w.r.votes, TRUE) = 0
    v == If(c.quorum = 0, w, [w EXCEPT !.r.votes[<<"outage", c.origin>>] = c.lapse])
    h == v.r.h  left == If(h.st = "open", Max(h.left, c.lapse), c.lapse) IN
  IF c.quorum > 0 /\ second THEN Done(w, 0)
  ELSE IF ~AtLeast(v, c) \/ ~May(v, c) \/ (c.quorum > 0 /\ Count(v.r.votes, TRUE) < c.quorum) THEN Done(v, 0)
  ELSE LET u == [v EXCEPT !.r.h.lapse = c.lapse] IN Done(IF h.st = "open" /\ h.cause = "outage"
    THEN [u EXCEPT !.r.h.left = left, !.r.h.reason = c.reason]
    ELSE To(u, On(u, c), "open", "outage", left, c.reason), 1)
UpScript(r, c) == LET u == Ends(r, c)  \* without a quorum, one sidecar probes for all
    w == IF c.quorum = 0 THEN [u EXCEPT !.r.votes = Drop(@, TRUE)] ELSE [u EXCEPT !.r.votes[<<"outage", c.origin>>] = 0]
    h == w.r.h IN
  IF ~May(w, c) \/ h.st = "closed" \/ h.cause # "outage" \/ (c.quorum > 0 /\ Count(w.r.votes, TRUE) >= c.quorum)
  THEN Done(w, 0) ELSE Done(IF ~c.trial THEN To(w, c, "closed", "probe", NoEnd, "")
                            ELSE If(h.st = "open", To(w, c, "half_open", "probe", NoEnd, ""), w), 1)
ForceScript(r, c) == LET w == Begun(Correct(r, c))  gen == If(G("at_least"), Max(w.r.h.gen, c.at_least), w.r.h.gen)
    u == [w EXCEPT !.r.h.gen = gen]  auto == c.state = "auto"
    h == New(u.r.h, If(c.state = "open", "open", "closed"), c.cause, NoEnd, c.reason)
    forced == [h EXCEPT !.forced = c.state, !.fleft = c.for] IN
  Done(Change(u, [c EXCEPT !.expect = 0], If(auto, h, forced)), 1)
====
